"""What is trained on and measured, as it lies on disk."""
