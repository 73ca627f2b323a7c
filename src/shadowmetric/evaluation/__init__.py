"""Measures of embeddings and labels, one per file."""
