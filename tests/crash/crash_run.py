"""A real daemon, builds of every shape on it, and a seeded schedule of kills."""

from __future__ import annotations

import math
import random
import time
from collections import Counter
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

import httpx

from actors.vms.host.vm_folder import VmFolder
from storage import Build, Pipeline, Storage, SystemClock
from tests.crash.documents import ENVIRONMENT, documents
from tests.crash.fault_injection import MAX_CALLS, POINTS, VM_POINTS
from tests.crash.kills import VM_PARTS, kill_part
from tests.crash.reactions import Reactions
from tests.crash.scenarios import Scenario, graphs
from tests.crash.triggers import Triggers
from tests.e2e.daemon import Client, Daemon
from tests.identity.local_server import LocalServer
from tests.state import run_sql
from tests.waiting import until

_UNFINISHED_BUILDS = 6
_MAX_VM_KILLS = 2
_MAX_CALL = 4
_TRIGGERED = 0.3
"""The chance of a push, and of a time of the schedule, in the life of a daemon."""
_LIFE_SECONDS = (0.1, 2.5)
_LEFT_OPEN = """
    SELECT builds.number, jobs.step_key, jobs.state FROM builds JOIN jobs ON jobs.build_id = builds.id
    WHERE builds.finished_at IS NOT NULL AND jobs.finished_at IS NULL
"""
_TIMEOUT_SECONDS = 240.0
"""A bound for a busy host, not for the service, whose starts `benchmarks/recovery.py` measures."""


class CrashRun:
    """Keeps a daemon busy while killing it and parts of its VMs, parked ones too; then lets it rest.

    The seed decides the kinds and times of the kills; their effects depend on the machine, too.
    """

    def __init__(self, daemon: Daemon, endpoint: LocalServer, folder: Path, seed: int) -> None:
        self.daemon = daemon
        self.scenarios: dict[str, Scenario] = {}
        self._killed: list[str] = []
        self.killed_vms: set[str] = set()
        self._killed_in_the_making = daemon.state.with_name("killed-vms")
        self.kills: Counter[str] = Counter()
        self._seconds = {"starts": 0.0, "lives": 0.0}
        self._began = time.monotonic()
        self._rng = random.Random(seed)
        faults = [(point, when, False) for point in POINTS for when in ("before", "after")]
        faults += [(point, when, True) for point in VM_POINTS for when in ("before", "after")]
        self._faults = self._rng.sample(faults, len(faults))
        daemon.start()
        self.client = Client.create(daemon, "crash-run@example.org")
        self.pipeline = self.client.pipeline()
        daemon.command("environment", "create", self.client.org, ENVIRONMENT, "--approver", "owner")
        self.triggers = Triggers(daemon, self.client, endpoint, folder)
        daemon.kill()
        self.storage = Storage.open(daemon.state, SystemClock())
        for pipeline in self._pipelines():
            self.triggers.tell_of(self.storage, pipeline.id)
        self._shapes = [*graphs(), *documents()]
        self.reactions = Reactions(self.storage, self.client, self.scenario, seed)
        self.reactions.start()

    def builds(self) -> list[Build]:
        """Return every build that was made, oldest first, even if the daemon died before it answered."""
        pages = (self.storage.builds.page(pipeline.id, 100_000, None) for pipeline in self._pipelines())
        return sorted((build for page in pages for build in page.rows), key=lambda build: build.id)

    def scenario(self, build: Build) -> Scenario:
        """Return what is expected of a build."""
        return self.scenarios.get(build.message or "") or self.triggers.scenarios[build.message or ""]

    def path(self, build: Build) -> str:
        """Return a build's API path, below its organization."""
        return f"pipelines/{build.pipeline_slug}/builds/{build.number}"

    def close(self) -> None:
        """End what looks at the service."""
        self.reactions.stop()
        self.storage.close()

    def kill_until(self, kills: int) -> None:
        """Run daemons until a number of kills is reached."""
        while self.kills.total() < kills:
            self._run_and_kill_daemon()

    def wait_until_idle(self) -> None:
        """Let a sound daemon end all builds; restart it, so that it cleans up as at each start."""
        self.daemon.kill()
        self.daemon.start()
        for build in self._to_cancel():
            self._cancel(build)
        until(self._all_ended, "the end of all builds", _TIMEOUT_SECONDS)
        with suppress(AssertionError):  # the check of triggers says better what is missing
            until(self._idle, "what is told of the builds", _TIMEOUT_SECONDS / 2)
        self.reactions.stop()
        assert self.daemon.stop() == 0
        self.daemon.start()

    def _all_ended(self) -> bool:
        return not self.storage.builds.unfinished() and self.reactions.idle() and not self.storage.builds.unfinished()

    def _idle(self) -> bool:
        builds = self.builds()  # before a look at what is unfinished: a push may make one meanwhile
        return self.triggers.idle(builds) and not self.storage.builds.unfinished()

    def _run_and_kill_daemon(self) -> None:
        """Run one daemon, usually with a fault: keep it busy, kill parts of its VMs, and kill it at the end."""
        rng = self._rng
        began = time.monotonic()
        ends = began + self._life()
        fault = self._spawn()
        if until(self._up_or_dead, "the daemon's start", _TIMEOUT_SECONDS) == "up":
            self._seconds["starts"] += time.monotonic() - began
            self._keep_busy()
            ends = max(ends, time.monotonic() + self._life())
        for _ in range(rng.choice((0, 0, 1, 1, 2))):
            time.sleep(rng.uniform(0.0, 0.4))
            self._kill_a_vm()
        while self.daemon.running and time.monotonic() < ends:
            time.sleep(0.01)
        self._seconds["lives"] += time.monotonic() - began
        self._count("daemon", "at a random moment" if self.daemon.running else fault)
        self.daemon.kill()
        self._note_vms_killed_in_the_making()
        self._check_what_a_kill_left()
        if rng.random() < 0.2:
            self._kill_a_vm()

    def _life(self) -> float:
        """Return how long a daemon lives: 0.1 to 0.5 s as likely as 0.5 to 2.5 s."""
        shortest, longest = _LIFE_SECONDS
        return math.exp(self._rng.uniform(math.log(shortest), math.log(longest)))

    def _spawn(self) -> str:
        if self._rng.random() < 0.2:
            self.daemon.spawn()
            return "by itself"
        point, when, kills_vm = self._faults[self.kills.total() % len(self._faults)]
        call = self._rng.randint(1, MAX_CALLS.get(point, _MAX_CALL))
        fault = {"CRASH_POINT": point, "CRASH_WHEN": when, "CRASH_CALL": str(call)}
        if kills_vm:
            fault["CRASH_VMS"] = str(self._killed_in_the_making)
        self.daemon.spawn("tests.crash.fault_injection", **fault)
        return f"{when} call {call} of {point}"

    def _note_vms_killed_in_the_making(self) -> None:
        """Record the VMs that the daemon itself has killed by a fault."""
        if self._killed_in_the_making.exists():
            for vm in self._killed_in_the_making.read_text().splitlines():
                self.killed_vms.add(vm)
                self._count("vm in the making", vm)
            self._killed_in_the_making.unlink()

    def _check_what_a_kill_left(self) -> None:
        """Check what is true at every moment, whatever was killed: a build that is over has no open job."""
        left = run_sql(self.daemon.state, _LEFT_OPEN)
        assert left == [], f"open jobs of finished builds: {left}"

    def _up_or_dead(self) -> str | None:
        if not self.daemon.running:
            return "dead"
        self.daemon.url = self.daemon.announced() or ""
        return "up" if self.daemon.url else None

    def _keep_busy(self) -> None:
        """Cancel some of the builds to cancel, and post builds until there are enough or the daemon dies."""
        try:
            for build in self._to_cancel():
                if self._rng.random() < 0.5:
                    self._cancel(build)
            if self._rng.random() < _TRIGGERED:
                self.triggers.push()
            if self._rng.random() < _TRIGGERED:
                self.triggers.fire(self.storage)
            while len(self.storage.builds.unfinished()) < _UNFINISHED_BUILDS:
                self._post()
        except httpx.TransportError:
            return

    def _post(self) -> None:
        scenario = self._rng.choice(self._shapes)
        name = f"{scenario.name} {len(self.scenarios)}"
        self.scenarios[name] = scenario
        self.pipeline.build(scenario.ir(), source=scenario.source, message=name, debug=scenario.debug)

    def _cancel(self, build: Build) -> None:
        self.client.request("PUT", f"{self.path(build)}/cancel")

    def _to_cancel(self) -> list[Build]:
        unfinished = self.storage.builds.unfinished()
        return [b for b in unfinished if self.scenario(b).canceled and not b.cancel_requested]

    def _kill_a_vm(self) -> None:
        """Kill a part of a VM whose job can lose another one, and record it."""
        active = self.storage.leases.live()
        self._rng.shuffle(active)
        for lease in active:
            job = None if lease.job_id is None else self.storage.jobs.get(lease.job_id)
            if job is not None and self._lost(job.id) >= _MAX_VM_KILLS:
                continue
            part = self._rng.choice(VM_PARTS)
            if kill_part(self._vm(lease.uuid), part, self._rng):
                self.killed_vms.add(lease.uuid)
                self._count(part, f"of attempt {lease.attempt} of {job.name}" if job else "of a parked VM")
                return

    def _pipelines(self) -> Sequence[Pipeline]:
        organization = self.storage.organizations.by_slug(self.client.org)
        assert organization is not None
        return self.storage.pipelines.page(organization.id, 100, None).rows

    def _lost(self, job_id: int) -> int:
        leases = (self.storage.leases.by_uuid(uuid) for uuid in self.killed_vms)
        return sum(lease is not None and lease.job_id == job_id for lease in leases)

    def _vm(self, lease_uuid: str) -> VmFolder:
        return VmFolder(self.daemon.state / "sandbox" / "vms" / lease_uuid)

    def _count(self, what: str, where: str) -> None:
        self.kills[what] += 1
        self._killed.append(f"{self.kills.total()}: {what} {where}")

    def schedule(self) -> str:
        """Return the kills in order, and the states of the builds."""
        return "\n".join([*self._killed, *(f"{build.message}: {build.state}" for build in self.builds())])

    def summary(self) -> str:
        """Return the numbers of kills, builds, lines and debits, and the seconds that all took."""
        kills = f"{self.kills.total()} kills in {len(self.builds())} builds: {dict(self.kills)}"
        lines = sum(path.read_bytes().count(b"\n") for path in (self.daemon.state / "logs").rglob("*.log"))
        ((debits,),) = run_sql(self.daemon.state, "SELECT count(*) FROM ledger_entries WHERE source = 'vm_lease_debit'")
        seconds = {what: round(each) for what, each in self._seconds.items()}
        done = f"{self.triggers.summary()}; a client has {dict(self.reactions.done)}"
        return f"{kills}; {done}; {lines} lines, {debits} debits, {time.monotonic() - self._began:.0f} s: {seconds}"
