"""The `taugrid` command."""
