"""Which losses gain from a large batch: linear heads on pooled features."""
