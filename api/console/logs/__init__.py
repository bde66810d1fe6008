"""The page of a job with its log: an outline of the lines, search and times for its script."""
