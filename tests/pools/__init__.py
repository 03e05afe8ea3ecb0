"""The stand-in for Cluster Autoscaler and its cloud."""
