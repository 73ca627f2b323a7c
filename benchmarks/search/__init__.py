"""Searching an index beside plain faiss."""
