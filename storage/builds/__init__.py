"""Builds and their jobs, attempts and artifacts."""
