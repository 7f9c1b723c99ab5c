"""Logs in the field's own formats, as a `BanditLog` or as Arrow batches in our columns."""
