"""A step on many ranks, computed and measured."""
