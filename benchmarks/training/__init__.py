"""`train` beside a bare loop."""
