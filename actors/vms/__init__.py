"""VMs leased to jobs: providers that make them, and what is done in them over SSH (engine.md, "Leases")."""

from __future__ import annotations

from actors.vms.collect import Garbled, Packed, list_files, pack
from actors.vms.command import (
    CommandSpec,
    CommandState,
    Exited,
    GuestLost,
    NotStarted,
    follow,
    inspect,
    start,
    terminate,
)
from actors.vms.connection import Completed, Connection, HostKeyMismatch, OutputTooLong
from actors.vms.dialog import Dialog, Window
from actors.vms.guest import script
from actors.vms.images import ImageError, Images, ImageSettings, ImageStore, NoRoom
from actors.vms.provider import Endpoint, ImageNotFound, Provider, SnapshotNotFound, VmError, VmLost, VmSpec, VmUse
from actors.vms.sandbox.provider import SandboxProvider
from actors.vms.source import SourceError
from actors.vms.source import describe as describe_source
from actors.vms.source import lay as lay_source
from actors.vms.stream import CommandTimeout, ConnectionLost

__all__ = [
    "CommandSpec",
    "CommandState",
    "CommandTimeout",
    "Completed",
    "Connection",
    "ConnectionLost",
    "Dialog",
    "Endpoint",
    "Exited",
    "Garbled",
    "GuestLost",
    "HostKeyMismatch",
    "ImageError",
    "ImageNotFound",
    "ImageSettings",
    "ImageStore",
    "Images",
    "NoRoom",
    "NotStarted",
    "OutputTooLong",
    "Packed",
    "Provider",
    "SandboxProvider",
    "SnapshotNotFound",
    "SourceError",
    "VmError",
    "VmLost",
    "VmSpec",
    "VmUse",
    "Window",
    "describe_source",
    "follow",
    "inspect",
    "lay_source",
    "list_files",
    "pack",
    "script",
    "start",
    "terminate",
]
