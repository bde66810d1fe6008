"""A server of the Model Context Protocol on stdin and stdout, for coding agents."""
