"""What no linter checks: rules about the text of the whole repository."""
