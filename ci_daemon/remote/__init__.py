"""A server, from a command line anywhere: signing in, contexts, and the operations of its API."""
