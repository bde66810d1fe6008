"""Builds from requests: bodies, credit, creation (wire-decisions.md, "Pipelines, builds, jobs")."""
