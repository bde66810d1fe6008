"""Agreements between a machine's two ends: its marks on the console, and the port of its sshd."""

READY = b"ci-daemon: ready"
FAILED = b"ci-daemon: failed"

SSH_PORT = 60022
"""A port that no test of a job is likely to want, as jobs share the machine's network with the sshd."""
