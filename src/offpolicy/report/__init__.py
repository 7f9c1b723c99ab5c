"""The report: results as one self-contained HTML file, and as the JSON that it is made of.

Charts are functions from numbers to SVG (`report.svg`), and text becomes markup in one
place (`report.html.markup`).
"""

__all__ = ["document", "html", "matplotlib", "pages", "sections", "svg"]
