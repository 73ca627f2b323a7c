"""Bytes as promised beside bytes as taken."""
