"""Builds of many shapes for the crash tests; the end of each is the same, whatever is killed."""

from __future__ import annotations

import io
import json
import tarfile
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from storage import BuildState, GateState, JobState
from tests.crash.output import Output
from tests.e2e.pipelines import Graph

LINE = Output()
_SLOW = Output(count=12, pause=0.1)
_BINARY = Output(count=40, size=100_000, pause=0.02)
_ENDLESS = Output(then="sleep 600")


@dataclass(frozen=True)
class Beside:
    """Of a job that passed: the results beside its log.

    The outputs ``tells`` are the same in each attempt. ``makes`` is a file of random bytes that it keeps and whose hash
    is its output SUM. A job that ``takes`` such a file of another one has the hash of what it got as output GOT, and
    the SUM that it got as READ, if it needs that job. ``generated_by`` names the job that declared it. The lines of a
    ``service`` are numbers from 1 on.
    """

    tells: Mapping[str, str] = field(default_factory=dict)
    makes: str | None = None
    takes: str | None = None
    takes_of: str | None = None
    generated_by: str | None = None
    service: str | None = None


@dataclass(frozen=True)
class ExpectedJob:
    """A step's output, the states it may end in, and its number of attempts; None if the number varies.

    Attempts that were lost with their VMs are not counted. ``complete``: its output is complete before it ends.
    If it passed, it has so many ``artifacts``, each with its own path as content.
    """

    output: Output
    states: frozenset[JobState]
    attempts: int | None
    complete: bool
    artifacts: int = 0
    beside: Beside = field(default_factory=Beside)


@dataclass
class Scenario:
    """A build: its graph or document, the expected results of its steps, and its final state.

    With ``debug``, the VMs of failed jobs are held. ``answer`` is the answer to all of its gates. If it is ``retried``,
    a client retries it at once whenever it has not passed, after a cancel if it is ``canceled_first``.
    """

    name: str
    state: BuildState = BuildState.PASSED
    source: bytes | None = None
    graph: Graph = field(default_factory=Graph)
    document: dict[str, Any] = field(default_factory=dict)
    jobs: dict[str, ExpectedJob] = field(default_factory=dict)
    debug: bool = False
    answer: GateState | None = None
    retried: bool = False
    canceled_first: bool = False

    @property
    def canceled(self) -> bool:
        """True if the build has to be canceled; otherwise it would not end."""
        return self.state is BuildState.CANCELED

    def ir(self) -> str:
        """Return the build as the API takes it."""
        return json.dumps(self.document) if self.document else self.graph.ir()

    def step(
        self,
        key: str,
        output: Output = LINE,
        *states: JobState,
        attempts: int | None = 1,
        complete: bool = True,
        artifacts: int = 0,
        **options: Any,
    ) -> Scenario:
        """Add a step; ``options`` are options of the graph's step."""
        self.graph.step(key, output.command(), **options)
        return self.expect(key, output, *states, attempts=attempts, complete=complete, artifacts=artifacts)

    def job(self, key: str, output: Output, *states: JobState, attempts: int | None = 1, **keys: Any) -> Scenario:
        """Add a job to the document; ``keys`` are its other keys there, ``beside`` its results beside its log."""
        beside = keys.pop("beside", Beside())
        self.document.setdefault("version", "1")
        self.document.setdefault("jobs", {})[key] = {"run": output.command(), **keys}
        return self.expect(key, output, *states, attempts=attempts, beside=beside)

    def expect(
        self, key: str, output: Output, *states: JobState, attempts: int | None = 1, complete: bool = True, **more: Any
    ) -> Scenario:
        """Expect a job, which may be one that another job generates."""
        self.jobs[key] = ExpectedJob(output, frozenset(states or {JobState.PASSED}), attempts, complete, **more)
        return self


def graphs() -> list[Scenario]:
    """Return one build of each shape that a graph can have."""
    return [
        _chain(),
        _fan(),
        _diamond(),
        _retries(),
        _exhausted_retries(),
        _failures(),
        _timeout(),
        _build_timeout(),
        _held(),
        _canceled(),
        _large_output(),
        _sleeping(),
        _with_source(),
        _cached(),
        _artifacts(),
        _helper(),
    ]


def append(trace: str) -> Output:
    """Print output, append a letter to a file on the disk, and check that each earlier step did so once."""
    return Output(then=f'printf %s {trace[-1]} >>trace; test "$(cat trace)" = {trace}')


def _chain() -> Scenario:
    scenario = Scenario("chain").step("a", append("a"))
    for trace in ("ab", "abc", "abcd"):
        scenario.step(trace[-1], append(trace), builds_in=trace[-2])
    return scenario


def _fan() -> Scenario:
    scenario = Scenario("fan").step("source", append("s"))
    leaves = tuple(f"leaf-{number}" for number in range(4))
    for leaf in leaves:
        scenario.step(leaf, append("sl"), builds_in="source")
    return scenario.step("sink", LINE, after=leaves)


def _diamond() -> Scenario:
    scenario = Scenario("diamond").step("top")
    scenario.step("left", _SLOW, after=("top",)).step("right", append("r"), after=("top",))
    return scenario.step("bottom", append("rb"), builds_in="right", after=("left",))


def _retries() -> Scenario:
    flaky = Output(then='test "$CI_ATTEMPT" -ge 3')
    scenario = Scenario("retries").step("flaky", flaky, attempts=None, runner_args={"retry": {"limit": 2}})
    return scenario.step("after", after=("flaky",))


def _exhausted_retries() -> Scenario:
    scenario = Scenario("exhausted-retries", BuildState.FAILED)
    retry = {"retry": {"limit": 1}}
    scenario.step("fails", Output(then="exit 4"), JobState.FAILED, attempts=2, runner_args=retry)
    return scenario.step("never", LINE, JobState.SKIPPED, attempts=0, after=("fails",))


def _failures() -> Scenario:
    """A soft failure with a step on its disk, and a hard failure with a clean-up after it."""
    soft = Output(then="printf s >trace; exit 5")
    scenario = Scenario("failures", BuildState.FAILED)
    scenario.step("soft", soft, JobState.FAILED, runner_args={"soft_fail": True})
    scenario.step("child", append("sh"), builds_in="soft")
    scenario.step("hard", Output(then="exit 6"), JobState.FAILED)
    scenario.step("skipped", LINE, JobState.SKIPPED, attempts=0, after=("hard",))
    return scenario.step("clean-up", after=("skipped",), even_after_failure=True)


def _timeout() -> Scenario:
    scenario = Scenario("time-out", BuildState.FAILED)
    scenario.step("endless", _ENDLESS, JobState.TIMED_OUT, attempts=1, complete=False, timeout_seconds=2)
    return scenario.step("never", LINE, JobState.SKIPPED, attempts=0, after=("endless",))


def _build_timeout() -> Scenario:
    scenario = Scenario("build-time-out", BuildState.FAILED, graph=Graph(timeout_seconds=3))
    scenario.step("endless", _ENDLESS, JobState.TIMED_OUT, attempts=None, complete=False)
    return scenario.step("never", LINE, JobState.TIMED_OUT, attempts=0, after=("endless",))


def _held() -> Scenario:
    scenario = Scenario("held", BuildState.FAILED, debug=True).step("bad", Output(then="exit 7"), JobState.FAILED)
    scenario.step("endless", _ENDLESS, JobState.TIMED_OUT, attempts=1, complete=False, timeout_seconds=2)
    return scenario.step("clean-up", after=("bad",), even_after_failure=True)


def _canceled() -> Scenario:
    scenario = Scenario("canceled", BuildState.CANCELED)
    scenario.step("first", append("f"), JobState.PASSED, JobState.CANCELED, attempts=None, complete=False)
    scenario.step("endless", _ENDLESS, JobState.CANCELED, attempts=None, complete=False, builds_in="first")
    return scenario.step("never", LINE, JobState.CANCELED, attempts=0, after=("endless",))


def _large_output() -> Scenario:
    scenario = Scenario("large-output").step("parent", _BINARY)
    return scenario.step("child", Output(count=4, size=500_000), builds_in="parent")


def _sleeping() -> Scenario:
    return Scenario("sleeping").step("sleeping", Output(then="sleep 3")).step("awake", _SLOW, after=("sleeping",))


def _cached() -> Scenario:
    """Steps that are cached by the first such build, and a step that runs on their disk in every build."""
    keys: tuple[dict[str, str], ...] = tuple({"policy": "forever", "key": key} for key in ("base", "tools"))
    scenario = Scenario("cached").step("base", append("b"), cache=keys[0])
    scenario.step("tools", append("bt"), builds_in="base", cache=keys[1])
    return scenario.step("own", append("bto"), builds_in="tools")


def _artifacts() -> Scenario:
    """A step whose files are collected while VMs are killed, and a step that needs them all."""
    files, promised = 300, {"artifacts": ["out/*"]}
    write = f"mkdir out; for each in $(seq {files}); do printf %s out/$each >out/$each; done"
    scenario = Scenario("artifacts").step("packs", Output(then=write), artifacts=files, runner_args=promised)
    return scenario.step("publishes", after=("packs",))


def _helper() -> Scenario:
    """A step whose output passes through a slow program, which ends after the shell."""
    through = replace(LINE, before='exec > >(while IFS= read -r line; do sleep 0.02; echo "$line"; done) 2>&1; ')
    return Scenario("helper").step("through", through)


def _with_source() -> Scenario:
    packed, text = io.BytesIO(), b"from the archive"
    with tarfile.open(fileobj=packed, mode="w:gz") as tar:
        member = tarfile.TarInfo("hello.txt")
        member.size = len(text)
        tar.addfile(member, io.BytesIO(text))
    scenario = Scenario("source", source=packed.getvalue())
    return scenario.step("reads", Output(then='test "$(cat hello.txt)" = "from the archive"'))
