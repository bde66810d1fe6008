"""Errors of connections to VMs, without paramiko: it is imported for the first connection."""

from __future__ import annotations

from actors.vms.provider import VmError


class ConnectionLost(VmError):
    """The connection failed, or ended a command without its exit status. A new one may work."""


class CommandTimeout(VmError):
    """A command did not end in time. Its channel is closed, but it may still run in the VM."""


class OutputTooLong(VmError):
    """A command that should answer briefly printed more than its limit."""
