"""Instances of the engine: made, started, watched and removed. Nothing of others is touched."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

from actors.vms.incus.engine import part
from actors.vms.incus.instance_logs import errors_of
from actors.vms.incus.names import OWNER
from actors.vms.incus.refusals import EngineError, NotFound, StartFailed
from actors.vms.incus.volumes import names_of
from actors.vms.provider import VmError, VmUse

if TYPE_CHECKING:
    from collections.abc import Mapping

    from actors.vms.incus.engine import Engine
    from actors.vms.incus.names import Names

__all__ = ["DISK_DEVICE", "Instances"]

DISK_DEVICE = "disk"
"""The device that is the disk of a job."""

_STOP_SECONDS = 60.0
_REMOVE_SECONDS = 60.0
_PAUSE_SECONDS = 0.1
_RUNNING, _STOPPED = "Running", "Stopped"
_NANOSECONDS = 1e9
_ALWAYS = {
    "boot.autostart": "false",  # what was on a member that was lost does not come back by itself
    "security.idmap.isolated": "true",  # the kernel counts descriptors in flight by the user id on the host
    "security.nesting": "true",  # init mounts file systems in namespaces of its own
}


class Instances:
    """The instances of a project."""

    def __init__(self, engine: Engine, profile: str, names: Names) -> None:
        self._engine = engine
        self._names = names
        self._profile = profile

    def names(self) -> list[str]:
        """Return the names of all instances, also of those on members that do not answer."""
        return names_of(self._engine.get("/1.0/instances"))

    def make(
        self,
        name: str,
        image: str,
        config: Mapping[str, str],
        devices: Mapping[str, Mapping[str, str]],
        member: str | None,
    ) -> None:
        """Make a container of an image on a member, and start it.

        Raises EngineError, also if the name is taken, and StartFailed; the container may then be there.
        """
        self.create(name, {"type": "image", "alias": image}, config, devices, member)
        try:
            self._engine.do("PUT", f"{_path(name)}/state", {"action": "start", "timeout": 30})
        except EngineError as error:
            if reason := errors_of(self._engine, name):
                message = f"instance {name} does not start: {reason}"
                raise StartFailed(message) from error
            raise

    def create(
        self,
        name: str,
        source: Mapping[str, str],
        config: Mapping[str, str],
        devices: Mapping[str, Mapping[str, str]],
        member: str | None,
    ) -> None:
        """Make a container on a member that is not started. Raises as `make` does."""
        body = {
            "name": name,
            "source": source,
            "profiles": [self._profile],
            "config": {**_ALWAYS, OWNER: self._names.prefix, **config},
            "devices": devices,
        }
        self._engine.do("POST", "/1.0/instances", body, {} if member is None else {"target": member})

    def find(self, name: str) -> dict[str, Any] | None:
        """Return what the engine says of an instance, or None."""
        try:
            found: dict[str, Any] = self._engine.get(_path(name))
        except NotFound:
            return None
        return found

    def runs(self, name: str) -> bool:
        """Tell whether an instance runs."""
        found = self.find(name)
        return found is not None and found["status"] == _RUNNING

    def change(
        self, name: str, config: Mapping[str, str], devices: Mapping[str, Mapping[str, str]] | None = None
    ) -> None:
        """Change settings of a running instance, and add devices to it."""
        body: dict[str, Any] = {"config": dict(config)} | ({} if devices is None else {"devices": devices})
        self._engine.do("PATCH", _path(name), body)

    def use(self, name: str) -> VmUse:
        """Return the CPU time and memory of an instance; unknown if it is gone or has ended."""
        try:
            state = self._engine.get(f"{_path(name)}/state")
        except NotFound:
            return VmUse()
        if state["status"] != _RUNNING:
            return VmUse()
        return VmUse(state["cpu"]["usage"] / _NANOSECONDS, state["memory"]["usage"])

    def disk_bytes(self, name: str) -> int | None:
        """Return the bytes of the volume at the device ``disk``, without those that it shares.

        None if there is no such instance or device. A member of a cluster tells this of another's instances, but not of
        another's volumes.
        """
        try:
            state = self._engine.get(f"{_path(name)}/state")
        except NotFound:
            return None
        found = (state["disk"] or {}).get(DISK_DEVICE)
        return None if found is None else int(found["usage"])

    def stop(self, name: str) -> None:
        """Kill all that runs in an instance; it stays. Raises NotFound and EngineError."""
        end = time.monotonic() + _STOP_SECONDS
        while True:
            try:
                self._engine.do("PUT", f"{_path(name)}/state", {"action": "stop", "force": True, "timeout": 30})
            except NotFound:
                raise
            except EngineError:
                if not self.runs(name):
                    return
                if time.monotonic() > end:
                    raise
                time.sleep(_PAUSE_SECONDS)
            else:
                return

    def remove(self, name: str) -> None:
        """Stop and remove an instance of the service; return when it is gone.

        One that is not there is fine, and one of that name which is not the service's is left alone.
        """
        end = time.monotonic() + _REMOVE_SECONDS
        while (found := self.find(name)) is not None and self._names.own(found["config"]):
            try:
                if found["status"] != _STOPPED:
                    self.stop(name)
                self._engine.do("DELETE", _path(name))
            except NotFound:
                return
            except EngineError as error:  # another operation on it is under way
                if time.monotonic() > end:
                    message = f"instance {name} cannot be removed: {error}"
                    raise VmError(message) from error
                time.sleep(_PAUSE_SECONDS)


def _path(name: str) -> str:
    return f"/1.0/instances/{part(name)}"
