"""Arrays, moments, solvers, files, tables: nothing here knows of policies."""

__all__ = [
    "checkpoint", "documents", "door", "double_double_kernels", "fastmath", "files", "kernels",
    "lbfgs", "logistic", "moments", "parallel", "parameters", "ragged", "saved", "tables",
    "types", "validation",
]  # fmt: skip
