"""From a run to its use: export, index, search, verify, serve."""
