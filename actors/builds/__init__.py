"""One build: its supervisor, its jobs, their attempts and outcomes (engine.md, "Actors")."""
