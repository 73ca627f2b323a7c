"""Losses compared on equal terms."""
