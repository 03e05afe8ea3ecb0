"""The controller's decisions as tables, its writes and its loop against the pretend API server."""
