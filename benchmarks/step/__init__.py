"""A whole training step, in micro-batches and plain."""
