"""A shell in a job's VM for the owner of the host: finding the VM, the shell, the terminal."""

from ci_daemon.debug.shell import Shell
from ci_daemon.debug.target import Target, find_target

__all__ = ["Shell", "Target", "find_target"]
