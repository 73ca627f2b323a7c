"""From images to an index file."""
