"""Datasets on disk: whether they are whole, and how they get there."""
