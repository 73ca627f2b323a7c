"""The parts of `shadowmetric evaluate`: what it reads, measures, prints and writes."""
