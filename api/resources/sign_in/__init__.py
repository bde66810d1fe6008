"""Ways to sign in and up."""

from __future__ import annotations
