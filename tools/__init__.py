"""What makes this repository's own pages, images and figures; nothing here is installed."""
