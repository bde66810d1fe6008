"""Forgejo and Gitea, whose APIs and webhooks are the same."""
