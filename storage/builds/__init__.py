"""Pipelines, builds, jobs, and what belongs to them: leases, attempts, artifacts, caches, secrets."""
