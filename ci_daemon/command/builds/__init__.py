"""Commands for builds and their jobs."""
