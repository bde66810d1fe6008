"""Pipelines, as people and their repositories declare them, with their schedules, secrets and status."""
