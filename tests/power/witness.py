"""A client of a service that writes down what it was told, and looks whether all of that is still so."""

from __future__ import annotations

import hashlib
import threading
from collections.abc import Iterator, Sized
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from storage import Build, BuildState, JobState, Storage


@dataclass
class Witness:
    """All that clients of one pipeline were told, mostly by the number of the build. Safe in any thread."""

    builds: dict[int, str] = field(default_factory=dict)
    """The ids of builds."""

    archives: dict[int, str] = field(default_factory=dict)
    """The hashes of the archives that were sent."""

    ended: dict[int, str] = field(default_factory=dict)
    """The final states of builds."""

    jobs: dict[str, tuple[int, str, str]] = field(default_factory=dict)
    """The builds, final states and logs of jobs, by id."""

    artifacts: dict[str, tuple[int, str]] = field(default_factory=dict)
    """The builds and hashes of artifacts, by id."""

    entries: dict[str, int] = field(default_factory=dict)
    """The cents of entries of the ledger, by id."""

    given_twice: list[str] = field(default_factory=list)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def answered(self, build: Any, archive: bytes | None) -> None:
        """Note a build that was answered, and what was sent with it."""
        number = build["number"]
        with self._lock:
            if number in self.builds:
                self.given_twice.append(f"the number {number} was given twice")
            self.builds[number] = build["id"]
            if archive is not None:
                self.archives[number] = hashlib.sha256(archive).hexdigest()

    def told_end(self, build: Any, logs: list[tuple[Any, str]], artifacts: list[Any]) -> None:
        """Note a build that has ended, with its jobs, each with its log, and its artifacts."""
        number = build["number"]
        with self._lock:
            self.ended[number] = build["state"]
            self.jobs |= {job["id"]: (number, job["state"], log) for job, log in logs}
            self.artifacts |= {each["id"]: (number, each["sha256"]) for each in artifacts}

    def told_entries(self, entries: list[Any]) -> None:
        """Note entries of the ledger."""
        with self._lock:
            self.entries |= {entry["id"]: entry["amount_cents"] for entry in entries}

    def open_builds(self) -> list[int]:
        """Return the numbers of builds of whose end nobody was told."""
        with self._lock:
            return [number for number in self.builds if number not in self.ended]

    def summary(self) -> str:
        """Return how much was told."""
        parts: dict[str, Sized] = {
            "builds": self.builds,
            "archives": self.archives,
            "ends": self.ended,
            "jobs": self.jobs,
            "artifacts": self.artifacts,
            "ledger entries": self.entries,
        }
        return ", ".join(f"{len(told)} {name}" for name, told in parts.items())

    def contradictions(self, storage: Storage, pipeline_id: int) -> Iterator[str]:
        """Yield a sentence for each thing that clients were told and that is not so (any more)."""
        yield from self.given_twice
        builds: dict[int, Build] = {}
        for number, external_id in self.builds.items():
            build = storage.builds.by_number(pipeline_id, number)
            if build is None or build.external_id != external_id:
                yield f"build {number} is gone, or another one"
            else:
                builds[number] = build
        for number, build in builds.items():
            state = self.ended.get(number)
            if state is not None and build.state is not BuildState(state):
                yield f"build {number} was {state}, and is {build.state}"
            sha256 = self.archives.get(number)
            if sha256 is not None and _hash(storage.sources.path(build.uuid)) != sha256:
                yield f"the archive of build {number} is gone or damaged"
        yield from self._of_jobs(storage, builds)
        for uuid, (number, sha256) in self.artifacts.items():
            if number in builds and _hash(storage.artifacts.files.path(builds[number].uuid, uuid)) != sha256:
                yield f"an artifact of build {number} is gone or damaged"
        entries = {
            entry.uuid: entry.amount_cents
            for build in list(builds.values())[:1]
            for entry in storage.ledger.entries(build.organization_id)
        }
        yield from (f"an entry of {cents} cents is gone" for uuid, cents in self.entries.items() if uuid not in entries)
        yield from (each.problem for each in storage.ledger.verify())

    def _of_jobs(self, storage: Storage, builds: dict[int, Build]) -> Iterator[str]:
        for uuid, (number, state, told) in self.jobs.items():
            job = storage.jobs.by_uuid(uuid)
            if job is None or number not in builds or job.state is not JobState(state):
                yield f"a job of build {number} was {state}, and is {job and job.state}"
                continue
            log = storage.logs.reader(builds[number].uuid, uuid)
            if (kept := log.read(0, log.size()).decode(errors="replace")) != told:
                yield f"the log of {job.name} of build {number} was {told!r}, and is {kept!r}"


def _hash(file: Path) -> str | None:
    return hashlib.sha256(file.read_bytes()).hexdigest() if file.exists() else None
