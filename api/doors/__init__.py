"""Doors to the operations: HTTP, the forms of the console, and the command on the box."""

from __future__ import annotations

from typing import TYPE_CHECKING

from storage import on_first_use

if TYPE_CHECKING:
    from api.doors.local import Door, LocalDoor, creation_elsewhere, service_elsewhere
else:
    __getattr__ = on_first_use(__name__)
