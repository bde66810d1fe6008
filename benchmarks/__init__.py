"""`make bench`: what the service costs, each figure beside its floor, measured by turns in the same run."""
