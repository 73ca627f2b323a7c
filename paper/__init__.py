"""Losses compared on equal terms, and what the paper shows."""
