"""The paper done again: its tables, figures and ablations, what it claims, and what we measured."""
