"""The paper's experiments, and demonstrations, as functions."""
