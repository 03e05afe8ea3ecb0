"""The process in the cluster. It imports taugrid_ray, never the reverse."""
