"""Agreements between a machine's two ends: marks on the console, the sshd's port, parts of the seed."""

READY = b"ci-daemon: ready"
ATTACHED = b"ci-daemon: attached"
FAILED = b"ci-daemon: failed"

SSH_PORT = 60022
"""A port that no test of a job is likely to want, as jobs share the machine's network with the sshd."""

SEED_PART_BYTES = 1 << 16
"""The bytes of each of the seed's two parts."""
