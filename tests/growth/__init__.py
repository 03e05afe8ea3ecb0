"""Growth: what is decided about a Ray cluster that runs."""
