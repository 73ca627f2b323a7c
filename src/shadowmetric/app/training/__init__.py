"""Settings, loop, checkpoint, journal, watch: from a dataset and a loss to a run in its folder."""
