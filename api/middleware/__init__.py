"""Middleware, with authentication, rate limits and idempotency (wire-decisions.md, "Everywhere")."""
