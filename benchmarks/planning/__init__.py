"""What a run plans beside what it takes: time and memory of short runs of different kinds."""
