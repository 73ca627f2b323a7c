"""Queries, their nearest neighbors, and how they are shown."""
