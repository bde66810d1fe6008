"""VMs leased to jobs: the providers that make them, and the work in them over SSH.

Modules that speak SSH or make VMs are imported on first use, because most commands need neither (engine.md, "Leases").
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

from actors.vms.provider import (
    Endpoint,
    ImageNotFound,
    Provider,
    SnapshotNotFound,
    VmDisk,
    VmError,
    VmLost,
    VmSpec,
    VmUse,
)

if TYPE_CHECKING:
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
    "VmDisk",
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

_LATER = {
    "CommandSpec": ("actors.vms.command", "CommandSpec"),
    "CommandState": ("actors.vms.command", "CommandState"),
    "CommandTimeout": ("actors.vms.stream", "CommandTimeout"),
    "Completed": ("actors.vms.connection", "Completed"),
    "Connection": ("actors.vms.connection", "Connection"),
    "ConnectionLost": ("actors.vms.stream", "ConnectionLost"),
    "Dialog": ("actors.vms.dialog", "Dialog"),
    "Exited": ("actors.vms.command", "Exited"),
    "Garbled": ("actors.vms.collect", "Garbled"),
    "GuestLost": ("actors.vms.command", "GuestLost"),
    "HostKeyMismatch": ("actors.vms.connection", "HostKeyMismatch"),
    "ImageError": ("actors.vms.images", "ImageError"),
    "ImageSettings": ("actors.vms.images", "ImageSettings"),
    "ImageStore": ("actors.vms.images", "ImageStore"),
    "Images": ("actors.vms.images", "Images"),
    "NoRoom": ("actors.vms.images", "NoRoom"),
    "NotStarted": ("actors.vms.command", "NotStarted"),
    "OutputTooLong": ("actors.vms.connection", "OutputTooLong"),
    "Packed": ("actors.vms.collect", "Packed"),
    "SandboxProvider": ("actors.vms.sandbox.provider", "SandboxProvider"),
    "SourceError": ("actors.vms.source", "SourceError"),
    "Window": ("actors.vms.dialog", "Window"),
    "describe_source": ("actors.vms.source", "describe"),
    "follow": ("actors.vms.command", "follow"),
    "inspect": ("actors.vms.command", "inspect"),
    "lay_source": ("actors.vms.source", "lay"),
    "list_files": ("actors.vms.collect", "list_files"),
    "pack": ("actors.vms.collect", "pack"),
    "script": ("actors.vms.guest", "script"),
    "start": ("actors.vms.command", "start"),
    "terminate": ("actors.vms.command", "terminate"),
}

if not TYPE_CHECKING:

    def __getattr__(name: str) -> object:
        if name not in _LATER:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        module, attribute = _LATER[name]
        return getattr(import_module(module), attribute)
