"""VMs leased to jobs: providers that make them, and what is done in them over SSH."""
