"""Builds from requests: bodies, credit, creation (wire-decisions.md, "Creating a build")."""
