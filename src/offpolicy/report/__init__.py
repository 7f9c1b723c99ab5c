"""The report: an evaluation or a comparison as one self-contained HTML file.

Charts are functions from numbers to SVG (`offpolicy.report.charts`), and text becomes markup in one
place (`offpolicy.report.markup`).
"""

from __future__ import annotations

from offpolicy.report.material import Material
from offpolicy.report.page import fragment, page
from offpolicy.report.provenance import File, Provenance

__all__ = ["File", "Material", "Provenance", "fragment", "page"]
