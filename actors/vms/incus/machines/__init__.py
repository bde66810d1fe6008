"""Virtual machines of the engine: the disk that they start from, and what it boots."""
