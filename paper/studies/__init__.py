"""The paper's tables, figures and ablations, one a file."""
