"""The data of commands that the box and servers both have: a protocol for each noun, and both sides."""
