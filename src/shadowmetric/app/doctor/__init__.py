"""What a machine is, and whether it computes what it should."""
