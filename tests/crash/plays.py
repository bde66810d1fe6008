"""Builds of many shapes for the crash tests; the end of each is the same, whatever is killed."""

from __future__ import annotations

import io
import tarfile
from dataclasses import dataclass, field
from typing import Any

from storage import BuildState, JobState
from tests.crash.speech import Speech
from tests.e2e.pipelines import Graph

_LINE = Speech()
_SLOW = Speech(count=12, pause=0.1)
_BINARY = Speech(count=40, size=100_000, pause=0.02)
_ENDLESS = Speech(then="sleep 600")


@dataclass(frozen=True)
class Role:
    """A step's output, the states it may end in, and its number of attempts; None if the number varies.

    Attempts that were lost with their VMs are not counted. ``whole``: its output is complete before it ends.
    """

    speech: Speech
    ends: frozenset[JobState]
    tries: int | None
    whole: bool


@dataclass
class Play:
    """A build: its graph, the expected results of its steps, and its final state.

    With ``debug``, the VMs of failed jobs are held.
    """

    name: str
    state: BuildState = BuildState.PASSED
    source: bytes | None = None
    graph: Graph = field(default_factory=Graph)
    roles: dict[str, Role] = field(default_factory=dict)
    debug: bool = False

    @property
    def canceled(self) -> bool:
        """True if the build has to be canceled; otherwise it would not end."""
        return self.state is BuildState.CANCELED

    def step(
        self,
        key: str,
        speech: Speech = _LINE,
        *ends: JobState,
        tries: int | None = 1,
        whole: bool = True,
        **options: Any,
    ) -> Play:
        """Add a step; ``options`` are options of the graph's step."""
        self.graph.step(key, speech.command(), **options)
        self.roles[key] = Role(speech, frozenset(ends or {JobState.PASSED}), tries, whole)
        return self


def plays() -> list[Play]:
    """Return one build of each shape."""
    return [
        _chain(),
        _fan(),
        _diamond(),
        _retries(),
        _hopeless(),
        _failures(),
        _timeout(),
        _build_timeout(),
        _held(),
        _canceled(),
        _loud(),
        _sleeping(),
        _with_source(),
        _cached(),
    ]


def _leave(trace: str) -> Speech:
    """Print output, append a letter to a file on the disk, and check that each earlier step did so once."""
    return Speech(then=f'printf %s {trace[-1]} >>trace; test "$(cat trace)" = {trace}')


def _chain() -> Play:
    play = Play("chain").step("a", _leave("a"))
    for trace in ("ab", "abc", "abcd"):
        play.step(trace[-1], _leave(trace), builds_in=trace[-2])
    return play


def _fan() -> Play:
    play = Play("fan").step("source", _leave("s"))
    leaves = tuple(f"leaf-{number}" for number in range(4))
    for leaf in leaves:
        play.step(leaf, _leave("sl"), builds_in="source")
    return play.step("sink", _LINE, after=leaves)


def _diamond() -> Play:
    play = Play("diamond").step("top").step("left", _SLOW, after=("top",)).step("right", _leave("r"), after=("top",))
    return play.step("bottom", _leave("rb"), builds_in="right", after=("left",))


def _retries() -> Play:
    flaky = Speech(then='test "$CI_ATTEMPT" -ge 3')
    play = Play("retries").step("flaky", flaky, tries=None, runner_args={"retry": {"limit": 2}})
    return play.step("after", after=("flaky",))


def _hopeless() -> Play:
    play = Play("hopeless", BuildState.FAILED)
    play.step("hopeless", Speech(then="exit 4"), JobState.FAILED, tries=2, runner_args={"retry": {"limit": 1}})
    return play.step("never", _LINE, JobState.SKIPPED, tries=0, after=("hopeless",))


def _failures() -> Play:
    """A soft failure with a step on its disk, and a hard failure with a clean-up after it."""
    soft = Speech(then="printf s >trace; exit 5")
    play = Play("failures", BuildState.FAILED).step("soft", soft, JobState.FAILED, runner_args={"soft_fail": True})
    play.step("heir", _leave("sh"), builds_in="soft")
    play.step("hard", Speech(then="exit 6"), JobState.FAILED)
    play.step("skipped", _LINE, JobState.SKIPPED, tries=0, after=("hard",))
    return play.step("clean-up", after=("skipped",), even_after_failure=True)


def _timeout() -> Play:
    play = Play("time-out", BuildState.FAILED)
    play.step("endless", _ENDLESS, JobState.TIMED_OUT, tries=1, whole=False, timeout_seconds=2)
    return play.step("never", _LINE, JobState.SKIPPED, tries=0, after=("endless",))


def _build_timeout() -> Play:
    play = Play("build-time-out", BuildState.FAILED, graph=Graph(timeout_seconds=3))
    play.step("endless", _ENDLESS, JobState.TIMED_OUT, tries=None, whole=False)
    return play.step("never", _LINE, JobState.TIMED_OUT, tries=0, after=("endless",))


def _held() -> Play:
    play = Play("held", BuildState.FAILED, debug=True).step("bad", Speech(then="exit 7"), JobState.FAILED)
    play.step("endless", _ENDLESS, JobState.TIMED_OUT, tries=1, whole=False, timeout_seconds=2)
    return play.step("clean-up", after=("bad",), even_after_failure=True)


def _canceled() -> Play:
    play = Play("canceled", BuildState.CANCELED)
    play.step("first", _leave("f"), JobState.PASSED, JobState.CANCELED, tries=None, whole=False)
    play.step("endless", _ENDLESS, JobState.CANCELED, tries=None, whole=False, builds_in="first")
    return play.step("never", _LINE, JobState.CANCELED, tries=0, after=("endless",))


def _loud() -> Play:
    return Play("loud").step("loud", _BINARY).step("heir", Speech(count=4, size=500_000), builds_in="loud")


def _sleeping() -> Play:
    return Play("sleeping").step("sleeping", Speech(then="sleep 3")).step("awake", _SLOW, after=("sleeping",))


def _cached() -> Play:
    """Steps that are cached by the first such build, and a step that runs on their disk in every build."""
    keys: tuple[dict[str, str], ...] = tuple({"policy": "forever", "key": key} for key in ("base", "tools"))
    play = Play("cached").step("base", _leave("b"), cache=keys[0])
    play.step("tools", _leave("bt"), builds_in="base", cache=keys[1])
    return play.step("own", _leave("bto"), builds_in="tools")


def _with_source() -> Play:
    packed, text = io.BytesIO(), b"from the archive"
    with tarfile.open(fileobj=packed, mode="w:gz") as tar:
        member = tarfile.TarInfo("hello.txt")
        member.size = len(text)
        tar.addfile(member, io.BytesIO(text))
    play = Play("source", source=packed.getvalue())
    return play.step("reads", Speech(then='test "$(cat hello.txt)" = "from the archive"'))
