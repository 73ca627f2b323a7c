"""Heads on cached features: a training takes a second, so that ten seeds and many settings are affordable."""
