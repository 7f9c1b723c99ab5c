"""Parts of pages."""

__all__ = ["answer", "curve", "diagnostics", "estimates", "page_data", "reproduction"]
