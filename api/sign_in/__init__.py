"""Sign-in: who may sign up, and the sessions that signing in starts."""

from __future__ import annotations
