"""The service's current work, read from its rows and files, whether it runs or not."""

from __future__ import annotations

from typing import TYPE_CHECKING

from storage import on_first_use

if TYPE_CHECKING:
    from ci_daemon.overview.vms import VmInUse, vms_in_use
else:
    __getattr__ = on_first_use(__name__)
