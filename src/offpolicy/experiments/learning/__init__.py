"""What Table 2 and Figure 4 are made from for labelled sets, in readings of their set-up, and the
same data our way."""

__all__ = ["ours", "readings", "search", "setup"]
