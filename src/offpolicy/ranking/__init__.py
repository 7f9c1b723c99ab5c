"""Rankings with clicks: evaluation and learning from position-biased feedback."""
