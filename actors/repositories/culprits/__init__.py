"""Searches for the commits that broke default branches."""
