"""Doors to the operations: HTTP, the forms of the console, and the command on the box."""
