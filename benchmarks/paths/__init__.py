"""Kernels, host waits and time of a step."""
