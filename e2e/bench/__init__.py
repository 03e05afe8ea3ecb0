"""Benchmarks on the local cluster: ratios between things measured in one run on one machine."""
