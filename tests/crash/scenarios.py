"""Builds of many shapes for the crash tests; the end of each is the same, whatever is killed."""

from __future__ import annotations

import io
import tarfile
from dataclasses import dataclass, field, replace
from typing import Any

from storage import BuildState, JobState
from tests.crash.output import Output
from tests.e2e.pipelines import Graph

_LINE = Output()
_SLOW = Output(count=12, pause=0.1)
_BINARY = Output(count=40, size=100_000, pause=0.02)
_ENDLESS = Output(then="sleep 600")


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


@dataclass
class Scenario:
    """A build: its graph, the expected results of its steps, and its final state.

    With ``debug``, the VMs of failed jobs are held.
    """

    name: str
    state: BuildState = BuildState.PASSED
    source: bytes | None = None
    graph: Graph = field(default_factory=Graph)
    jobs: dict[str, ExpectedJob] = field(default_factory=dict)
    debug: bool = False

    @property
    def canceled(self) -> bool:
        """True if the build has to be canceled; otherwise it would not end."""
        return self.state is BuildState.CANCELED

    def step(
        self,
        key: str,
        output: Output = _LINE,
        *states: JobState,
        attempts: int | None = 1,
        complete: bool = True,
        artifacts: int = 0,
        **options: Any,
    ) -> Scenario:
        """Add a step; ``options`` are options of the graph's step."""
        self.graph.step(key, output.command(), **options)
        self.jobs[key] = ExpectedJob(output, frozenset(states or {JobState.PASSED}), attempts, complete, artifacts)
        return self


def scenarios() -> list[Scenario]:
    """Return one build of each shape."""
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


def _append(trace: str) -> Output:
    """Print output, append a letter to a file on the disk, and check that each earlier step did so once."""
    return Output(then=f'printf %s {trace[-1]} >>trace; test "$(cat trace)" = {trace}')


def _chain() -> Scenario:
    scenario = Scenario("chain").step("a", _append("a"))
    for trace in ("ab", "abc", "abcd"):
        scenario.step(trace[-1], _append(trace), builds_in=trace[-2])
    return scenario


def _fan() -> Scenario:
    scenario = Scenario("fan").step("source", _append("s"))
    leaves = tuple(f"leaf-{number}" for number in range(4))
    for leaf in leaves:
        scenario.step(leaf, _append("sl"), builds_in="source")
    return scenario.step("sink", _LINE, after=leaves)


def _diamond() -> Scenario:
    scenario = Scenario("diamond").step("top")
    scenario.step("left", _SLOW, after=("top",)).step("right", _append("r"), after=("top",))
    return scenario.step("bottom", _append("rb"), builds_in="right", after=("left",))


def _retries() -> Scenario:
    flaky = Output(then='test "$CI_ATTEMPT" -ge 3')
    scenario = Scenario("retries").step("flaky", flaky, attempts=None, runner_args={"retry": {"limit": 2}})
    return scenario.step("after", after=("flaky",))


def _exhausted_retries() -> Scenario:
    scenario = Scenario("exhausted-retries", BuildState.FAILED)
    retry = {"retry": {"limit": 1}}
    scenario.step("fails", Output(then="exit 4"), JobState.FAILED, attempts=2, runner_args=retry)
    return scenario.step("never", _LINE, JobState.SKIPPED, attempts=0, after=("fails",))


def _failures() -> Scenario:
    """A soft failure with a step on its disk, and a hard failure with a clean-up after it."""
    soft = Output(then="printf s >trace; exit 5")
    scenario = Scenario("failures", BuildState.FAILED)
    scenario.step("soft", soft, JobState.FAILED, runner_args={"soft_fail": True})
    scenario.step("child", _append("sh"), builds_in="soft")
    scenario.step("hard", Output(then="exit 6"), JobState.FAILED)
    scenario.step("skipped", _LINE, JobState.SKIPPED, attempts=0, after=("hard",))
    return scenario.step("clean-up", after=("skipped",), even_after_failure=True)


def _timeout() -> Scenario:
    scenario = Scenario("time-out", BuildState.FAILED)
    scenario.step("endless", _ENDLESS, JobState.TIMED_OUT, attempts=1, complete=False, timeout_seconds=2)
    return scenario.step("never", _LINE, JobState.SKIPPED, attempts=0, after=("endless",))


def _build_timeout() -> Scenario:
    scenario = Scenario("build-time-out", BuildState.FAILED, graph=Graph(timeout_seconds=3))
    scenario.step("endless", _ENDLESS, JobState.TIMED_OUT, attempts=None, complete=False)
    return scenario.step("never", _LINE, JobState.TIMED_OUT, attempts=0, after=("endless",))


def _held() -> Scenario:
    scenario = Scenario("held", BuildState.FAILED, debug=True).step("bad", Output(then="exit 7"), JobState.FAILED)
    scenario.step("endless", _ENDLESS, JobState.TIMED_OUT, attempts=1, complete=False, timeout_seconds=2)
    return scenario.step("clean-up", after=("bad",), even_after_failure=True)


def _canceled() -> Scenario:
    scenario = Scenario("canceled", BuildState.CANCELED)
    scenario.step("first", _append("f"), JobState.PASSED, JobState.CANCELED, attempts=None, complete=False)
    scenario.step("endless", _ENDLESS, JobState.CANCELED, attempts=None, complete=False, builds_in="first")
    return scenario.step("never", _LINE, JobState.CANCELED, attempts=0, after=("endless",))


def _large_output() -> Scenario:
    scenario = Scenario("large-output").step("parent", _BINARY)
    return scenario.step("child", Output(count=4, size=500_000), builds_in="parent")


def _sleeping() -> Scenario:
    return Scenario("sleeping").step("sleeping", Output(then="sleep 3")).step("awake", _SLOW, after=("sleeping",))


def _cached() -> Scenario:
    """Steps that are cached by the first such build, and a step that runs on their disk in every build."""
    keys: tuple[dict[str, str], ...] = tuple({"policy": "forever", "key": key} for key in ("base", "tools"))
    scenario = Scenario("cached").step("base", _append("b"), cache=keys[0])
    scenario.step("tools", _append("bt"), builds_in="base", cache=keys[1])
    return scenario.step("own", _append("bto"), builds_in="tools")


def _artifacts() -> Scenario:
    """A step whose files are collected while VMs are killed, and a step that needs them all."""
    files, promised = 300, {"artifacts": ["out/*"]}
    write = f"mkdir out; for each in $(seq {files}); do printf %s out/$each >out/$each; done"
    scenario = Scenario("artifacts").step("packs", Output(then=write), artifacts=files, runner_args=promised)
    return scenario.step("publishes", after=("packs",))


def _helper() -> Scenario:
    """A step whose output passes through a slow program, which ends after the shell."""
    through = replace(_LINE, before='exec > >(while IFS= read -r line; do sleep 0.02; echo "$line"; done) 2>&1; ')
    return Scenario("helper").step("through", through)


def _with_source() -> Scenario:
    packed, text = io.BytesIO(), b"from the archive"
    with tarfile.open(fileobj=packed, mode="w:gz") as tar:
        member = tarfile.TarInfo("hello.txt")
        member.size = len(text)
        tar.addfile(member, io.BytesIO(text))
    scenario = Scenario("source", source=packed.getvalue())
    return scenario.step("reads", Output(then='test "$(cat hello.txt)" = "from the archive"'))
