"""Random changes of images, a batch at a time: windows (place, size, angle, mirror) and colors (light, erasing)."""
