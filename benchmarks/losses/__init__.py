"""Losses beside the peers: time, peak memory, kept bytes."""
