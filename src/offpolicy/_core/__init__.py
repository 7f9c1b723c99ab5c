"""Arrays, moments, solvers, files, tables: nothing here knows of policies."""

__all__ = [
    "checkpoint", "documents", "fastmath", "files", "kernels", "lbfgs", "logistic",
    "moment_kernels", "moments", "parallel", "parameters", "ragged", "saved", "tables", "types",
    "validation",
]  # fmt: skip
