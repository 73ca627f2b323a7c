"""Do two images show the same? Cosines, and thresholds measured on test images."""
