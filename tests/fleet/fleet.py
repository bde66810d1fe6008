"""Fleets for tests: real members of an engine, alone or as a cluster, at a switch of their own."""

from __future__ import annotations

import json
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from typing import TYPE_CHECKING, Self

from tests.claimed_folder import ClaimedFolder
from tests.control_groups import remove_groups
from tests.fleet.certificate import Certificate
from tests.fleet.member import Member
from tests.fleet.switch import Switch
from tests.fleet.tree import FOLDER

if TYPE_CHECKING:
    from tests.fleet.engine import Engine

POOL = "fast"
"""The storage pool of every member: btrfs."""

_POOL_SOURCE = "/srv/pool"
_SOONEST_OFFLINE_SECONDS = 11
"""The least that an engine takes for the silence after which it calls a member offline."""


class Fleet:
    """Running members, as a context manager; two or more form a cluster.

    They trust ``client``'s certificate without limits. Leaving the context removes their processes, mounts, loop
    devices, control groups, namespaces and files. Needs root.
    """

    def __init__(self, engine: Engine, count: int = 1, *, pool_bytes: int = 20 << 30) -> None:
        self._folder = ClaimedFolder(FOLDER, "lab", lambda name: remove_groups(f"{name}-"))
        self._ending = ExitStack()
        self._ending.callback(self._folder.remove)
        self.engine = engine
        self.client = Certificate.make(self._folder.path)
        self.switch = Switch()
        self.members = [
            Member(engine, self._folder.path / name, self.switch, name, number, pool_bytes=pool_bytes)
            for number, name in enumerate((f"m{number}" for number in range(1, count + 1)), 1)
        ]

    def __enter__(self) -> Self:
        with self._ending:
            self._ending.enter_context(self.switch)
            for member in self.members:
                self._ending.callback(member.kill)
            for member in self.members:
                member.boot()
            with ThreadPoolExecutor() as threads:
                list(threads.map(Member.start_engine, self.members))
            self._begin(self.members[0])
            for member in self.members[1:]:
                self._join(member)
            self._ending = self._ending.pop_all()
        return self

    def __exit__(self, *_: object) -> None:
        self._ending.close()

    def first(self, *, but: Member | None = None) -> Member:
        """Return a member, another than ``but``."""
        return next(member for member in self.members if member is not but)

    def leader(self, ask: Member) -> Member:
        """Return the member that leads the cluster's database, as ``ask`` says."""
        rows = json.loads(ask.run(f"{self.engine.client} cluster list --format json"))
        name = next(row["server_name"] for row in rows if "database-leader" in row["roles"])
        return next(member for member in self.members if member.name == name)

    def evacuate(self, member: Member, ask: Member) -> None:
        """Drain a member, by the engine's own command."""
        ask.run(f"{self.engine.client} cluster evacuate {member.name} --force")

    def restore(self, member: Member, ask: Member) -> None:
        """Take a drained member back."""
        ask.run(f"{self.engine.client} cluster restore {member.name} --force")

    def _begin(self, member: Member) -> None:
        preseed: dict[str, object] = {
            "config": {"core.https_address": f"{member.address}:8443"},
            "networks": [],
            "storage_pools": [{"name": POOL, "driver": "btrfs", "config": {"source": _POOL_SOURCE}}],
            "profiles": [{"name": "default", "devices": {"root": {"path": "/", "pool": POOL, "type": "disk"}}}],
        }
        if len(self.members) > 1:
            preseed["cluster"] = {"server_name": member.name, "enabled": True}
        member.run(self.engine.preseed, stdin=json.dumps(preseed))
        if len(self.members) > 1:
            member.run(f"{self.engine.client} config set cluster.offline_threshold {_SOONEST_OFFLINE_SECONDS}")
        member.run("cat >/root/client.crt", stdin=self.client.file.read_text())
        member.run(f"{self.engine.trust} /root/client.crt --name tests")

    def _join(self, member: Member) -> None:
        token = self.members[0].run(f"{self.engine.client} cluster add {member.name}").split()[-1]
        pool = {"entity": "storage-pool", "name": POOL, "key": "source", "value": _POOL_SOURCE}
        cluster = {"enabled": True, "server_address": f"{member.address}:8443", "cluster_token": token}
        member.run(self.engine.preseed, stdin=json.dumps({"cluster": {**cluster, "member_config": [pool]}}))
