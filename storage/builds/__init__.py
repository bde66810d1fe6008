"""Builds and their jobs, attempts, artifacts and renders."""
