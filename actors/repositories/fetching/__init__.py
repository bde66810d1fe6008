"""Fetching of repositories into mirrors, by a git that is closed to all but the service's own settings."""
