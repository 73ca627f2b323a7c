"""A run as a folder: its settings, its files, its best embedder, and where it comes from."""
