"""The process: configuration, wiring, signals, and the `ci-daemon` command."""

from __future__ import annotations
