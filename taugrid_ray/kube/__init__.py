"""The only folder that talks to the API server."""
