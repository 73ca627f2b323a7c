"""Published datasets, one a file: its official layout, lists and counts."""
