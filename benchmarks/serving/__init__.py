"""What a small device and a loaded server cost."""
