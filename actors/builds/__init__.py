"""One build from start to end: its supervisor, its jobs, their attempts and outcomes (engine.md)."""
