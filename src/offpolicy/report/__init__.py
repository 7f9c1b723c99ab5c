"""The report: an evaluation or a comparison as one self-contained HTML file.

Charts are functions from numbers to SVG (`report.svg`), and text becomes markup in one
place (`report.html.markup`).
"""

from __future__ import annotations

from offpolicy.report.html.provenance import File, Provenance
from offpolicy.report.pages.evaluation import fragment, page
from offpolicy.report.sections.page_data import PageData

__all__ = ["File", "PageData", "Provenance", "fragment", "page"]
