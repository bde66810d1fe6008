"""Logs over HTTP: byte ranges, events and tokens (wire-decisions.md, "Logs and artifacts")."""
