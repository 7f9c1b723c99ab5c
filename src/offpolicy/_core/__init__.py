"""Arrays, moments, solvers, files, tables: nothing here knows of policies."""

__all__ = [
    "buckets", "checkpoint", "compiling", "contexts", "documents", "door", "double_double_kernels",
    "fastmath", "files", "frames", "kernels", "late", "lbfgs", "logistic", "moments", "parallel",
    "parameters", "pickling", "quoting", "ragged", "saved", "tables", "types", "validation",
]  # fmt: skip
