"""Notifications: what is told about the ends of builds, to whom, and what came of it."""
