"""A user's own data: a folder of images, a table, arrays."""
