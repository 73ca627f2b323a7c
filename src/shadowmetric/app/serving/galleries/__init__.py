"""What is searched: an index in a file, exact or approximate."""
