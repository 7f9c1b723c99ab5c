"""Builders, references and readers that tests share."""
