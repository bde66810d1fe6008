"""The page of a build: its states live, its graph and its time line."""
