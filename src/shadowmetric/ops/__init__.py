"""Arithmetic in bounded memory: no labels policy, no modules, no input or output."""
