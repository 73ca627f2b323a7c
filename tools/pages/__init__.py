"""Tables and images of the documentation, made from records."""
