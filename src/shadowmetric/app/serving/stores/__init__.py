"""Vector stores instead of a file: filled, and searched as galleries."""
