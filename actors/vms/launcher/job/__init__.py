"""The part of a VM that runs a job: its supervisor, its namespaces and its one command."""
