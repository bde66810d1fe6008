"""Builds of the language: generated jobs, gates, files, services, workspaces, and builds run again."""

from __future__ import annotations

import json
import shlex
from collections.abc import Mapping
from typing import Any

from storage import BuildState, GateState, JobState
from tests.crash.output import Output
from tests.crash.scenarios import LINE, Beside, Scenario, append
from tests.e2e.pipelines import Graph

ENVIRONMENT = "production"
NIGHTLY, NIGHTLY_JOB = "nightly", "nightly"
_DATA = "dist/data"
_SAID = "served"
_SERVER = f"""
import socket, threading, time
server = socket.create_server(("", 5000))
def count():
    for number in range(1, 1000000):
        print(number, flush=True)
        time.sleep(0.02)
threading.Thread(target=count, daemon=True).start()
while True:
    peer, _ = server.accept()
    peer.sendall(b"{_SAID}\\n")
    peer.close()
"""
_ASK = "exec 3<>/dev/tcp/db/5000; read -r said <&3; echo SAID=$said >>$CI_OUTPUT; sleep 0.3"
_MAKE = (
    f"mkdir -p dist; head -c 300000 /dev/urandom >{_DATA}; "
    f"sum=$(sha256sum <{_DATA}); echo SUM=${{sum%% *}} >>$CI_OUTPUT"
)
_TAKE = f"sum=$(sha256sum <{_DATA}); echo GOT=${{sum%% *}} >>$CI_OUTPUT"
_TAKE_AND_READ = f"{_TAKE}; echo READ=$SUM >>$CI_OUTPUT"
_THIRD_TIME = Output(then='test "$CI_ATTEMPT" -ge 3')
_SECOND_TIME = Output(then='test "$CI_ATTEMPT" -ge 2')


def documents() -> list[Scenario]:
    """Return one build of each shape."""
    return [
        _generating(),
        _gated("approved", GateState.APPROVED),
        _gated("rejected", GateState.REJECTED),
        _files(),
        _outputs(),
        _service(),
        _workspace(),
        _retried(),
        _retried_after_cancel(),
        _retried_after_time(),
        _retried_maker(),
    ]


def nightly() -> Scenario:
    """Return the build of a schedule, whose file other pipelines take."""
    return Scenario(NIGHTLY).job(NIGHTLY_JOB, Output(then=_MAKE), artifacts=[_DATA], beside=Beside(makes=_DATA))


def _generate(jobs: Mapping[str, Mapping[str, object]]) -> str:
    return f"printf %s {shlex.quote(json.dumps({'jobs': jobs}))} >more.json"


def _generating() -> Scenario:
    """A job that generates two, of which one generates another one; each runs once."""
    deep, child, after = append("mcd"), append("mc"), LINE
    more = {"deep": {"from": "child", "run": deep.command()}}
    child = Output(then=f"{child.then} && {_generate(more)}")
    jobs: dict[str, dict[str, object]] = {
        "child": {"from": "maker", "run": child.command(), "generates": "more.json"},
        "after": {"needs": ["child"], "run": after.command()},
    }
    maker = Output(then=f"{append('m').then} && {_generate(jobs)}")
    scenario = Scenario("generating").job("maker", maker, generates="more.json")
    scenario.job("own", LINE, needs=["maker"])
    scenario.expect("child", child, beside=Beside(generated_by="maker"))
    scenario.expect("deep", deep, beside=Beside(generated_by="child"))
    return scenario.expect("after", after, beside=Beside(generated_by="maker"))


def _gated(name: str, answer: GateState) -> Scenario:
    """A job that waits at a gate, and a job after it."""
    gate = {"environment": ENVIRONMENT}
    if answer is GateState.APPROVED:
        scenario = Scenario(name, answer=answer).job("test", LINE)
        return scenario.job("deploy", LINE, needs=["test"], gate=gate).job("after", LINE, needs=["deploy"])
    scenario = Scenario(name, BuildState.FAILED, answer=answer).job("test", LINE)
    scenario.job("deploy", LINE, JobState.FAILED, attempts=0, needs=["test"], gate=gate)
    return scenario.job("after", LINE, JobState.SKIPPED, attempts=0, needs=["deploy"])


def _files() -> Scenario:
    """Jobs that take a file: of another job, and of the last build of another pipeline."""
    of_nightly = Beside(takes=NIGHTLY_JOB, takes_of=NIGHTLY)
    scenario = Scenario("files").job("maker", Output(then=_MAKE), artifacts=[_DATA], beside=Beside(makes=_DATA))
    scenario.job("taker", Output(then=_TAKE_AND_READ), files={"maker": [_DATA]}, beside=Beside(takes="maker"))
    taken = {NIGHTLY: {NIGHTLY_JOB: [_DATA]}}
    return scenario.job("other", Output(then=_TAKE), files_of=taken, beside=of_nightly)


def _outputs() -> Scenario:
    """Values that go from job to job; the attempt's number is no part of them, so that they are known."""
    tell = Output(then="echo FIRST=1 >>$CI_OUTPUT; sleep 0.2; echo SECOND=2 >>$CI_OUTPUT")
    scenario = Scenario("outputs").job("first", tell, beside=Beside(tells={"FIRST": "1", "SECOND": "2"}))
    add = Output(then="echo SUMMED=$((FIRST + SECOND)) >>$CI_OUTPUT")
    scenario.job("second", add, needs=["first"], beside=Beside(tells={"SUMMED": "3"}))
    last = Output(then="echo ALL=$FIRST$SECOND$SUMMED >>$CI_OUTPUT")
    return scenario.job("last", last, needs=["first", "second"], beside=Beside(tells={"ALL": "123"}))


def _service() -> Scenario:
    server = {"image": "debian:12", "command": ["python3", "-c", _SERVER], "ready": 5000}
    beside = Beside(tells={"SAID": _SAID}, service="db")
    return Scenario("service").job("asks", Output(then=_ASK), services={"db": server}, beside=beside)


def _workspace() -> Scenario:
    """Jobs on disks of their own that share a workspace; two of them have no VM at the same time."""
    scenario = Scenario("workspace")
    for trace in ("a", "ab", "abc"):
        needs: dict[str, Any] = {"needs": [trace[-2]]} if len(trace) > 1 else {}
        scenario.job(trace[-1], append(trace), workspace="shared", **needs)
    return scenario


def _retried() -> Scenario:
    """A build that fails until a job's third attempt."""
    scenario = Scenario("retried", retried=True).step("base", append("b"), attempts=None)
    scenario.step("flaky", Output(then=f"{append('bf').then} && {_THIRD_TIME.then}"), attempts=None, builds_in="base")
    scenario.step("next", after=("flaky",), attempts=None).step("last", after=("next",), attempts=None)
    return scenario.step("other", attempts=None)


def _retried_after_cancel() -> Scenario:
    slow = Output(then='test "$CI_ATTEMPT" -ge 2 || sleep 3')
    scenario = Scenario("retried-after-cancel", retried=True, canceled_first=True)
    scenario.step("first", append("f"), attempts=None)
    scenario.step("slow", slow, attempts=None, complete=False, builds_in="first")
    return scenario.step("next", after=("slow",), attempts=None)


def _retried_after_time() -> Scenario:
    slow = Output(then='test "$CI_ATTEMPT" -ge 2 || sleep 600')
    scenario = Scenario("retried-after-time", retried=True, graph=Graph(timeout_seconds=3))
    scenario.step("slow", slow, attempts=None, complete=False)
    return scenario.step("next", after=("slow",), attempts=None)


def _retried_maker() -> Scenario:
    """A job that generates one which fails first, on its disk: both run again, and no job joins twice."""
    child = Output(then=f"{append('mc').then} && {_SECOND_TIME.then}")
    jobs: dict[str, dict[str, object]] = {
        "child": {"from": "maker", "run": child.command()},
        "after": {"needs": ["child"], "run": LINE.command()},
    }
    maker = Output(then=f"{append('m').then} && {_generate(jobs)}")
    scenario = Scenario("retried-maker", retried=True).job("maker", maker, attempts=None, generates="more.json")
    generated = Beside(generated_by="maker")
    scenario.expect("child", child, attempts=None, beside=generated)
    return scenario.expect("after", LINE, attempts=None, beside=generated)
