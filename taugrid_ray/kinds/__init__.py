"""What must be known of each Kubernetes kind: where it lives and which of its fields we read."""
