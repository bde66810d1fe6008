"""Instances of the engine: made, started, watched and removed. Nothing of others is touched."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

from actors.vms.incus.engine import part
from actors.vms.incus.instance_kinds import CONTAINERS, DISK_DEVICE, makes_machines
from actors.vms.incus.instance_logs import errors_of
from actors.vms.incus.names import OWNER
from actors.vms.incus.refusals import EngineError, NotFound, StartFailed
from actors.vms.incus.volumes import names_of
from actors.vms.provider import VmError, VmUse

if TYPE_CHECKING:
    from collections.abc import Mapping

    from actors.vms.incus.engine import Engine
    from actors.vms.incus.instance_kinds import InstanceKind
    from actors.vms.incus.names import Names

_CREATE_SECONDS = 600.0
"""The first instance of an image on a member unpacks it."""

_STOP_SECONDS = 60.0
_REMOVE_SECONDS = 60.0
_PAUSE_SECONDS = 0.1
_RUNNING, _STOPPED = "Running", "Stopped"
_NANOSECONDS = 1e9
_ALWAYS = {"boot.autostart": "false"}  # instances of a lost member do not start again by themselves
_NO_AGENT = -1
"""The number of processes that the engine reports for a machine whose agent it cannot reach."""


class Instances:
    """The instances of a project."""

    def __init__(self, engine: Engine, profile: str, names: Names) -> None:
        self._engine = engine
        self._names = names
        self._profile = profile

    def names(self) -> list[str]:
        """Return the names of all instances, also of those on members that do not answer."""
        return names_of(self._engine.get("/1.0/instances"))

    def check(self, kind: InstanceKind) -> None:
        """Raise EngineError if the member that answers makes no instances of a kind."""
        if not kind.is_machine:
            return
        environment = self._engine.get("/1.0")["environment"]
        if not makes_machines(environment):
            engine = f"{environment['server']} with the driver {environment.get('driver')}"
            message = (
                f"the engine, {engine}, makes no virtual machines for jobs: "
                "`ci-daemon doctor` says what its members need, or set incus.instances to container"
            )
            raise EngineError(message)

    def make(
        self,
        name: str,
        image: str,
        config: Mapping[str, str],
        devices: Mapping[str, Mapping[str, str]],
        member: str | None,
        kind: InstanceKind = CONTAINERS,
    ) -> None:
        """Make an instance of an image on a member, and start it.

        Raises EngineError, also if the name is taken, and StartFailed; the instance may then be there.
        """
        self.create(name, {"type": "image", "alias": image}, config, devices, member, kind)
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
        kind: InstanceKind = CONTAINERS,
    ) -> None:
        """Make an instance on a member that is not started. Raises as `make` does."""
        body = {
            "name": name,
            "type": kind.type,
            "source": source,
            "profiles": [self._profile],
            "config": {**_ALWAYS, **kind.always, OWNER: self._names.prefix, **config},
            "devices": devices,
        }
        target = {} if member is None else {"target": member}
        self._engine.do("POST", "/1.0/instances", body, target, seconds=_CREATE_SECONDS)

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

    def runs_programs(self, name: str) -> bool:
        """Tell whether the engine can run programs in a machine. Raises NotFound and EngineAway."""
        state = self._engine.get(f"{_path(name)}/state")
        return bool(state["status"] == _RUNNING and state["processes"] != _NO_AGENT)

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
        used = state["cpu"]["usage"]  # negative if it is not known, as of machines
        return VmUse(None if used < 0 else used / _NANOSECONDS, state["memory"]["usage"])

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
