"""One attempt of a job: workspace, command, log, artifacts, outcome (engine.md, "A job attempt")."""
