"""Fetching of repositories into mirrors, by a git that obeys only the settings of the service."""
