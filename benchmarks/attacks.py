"""Attacks of one organization, or of strangers, beside the builds of another one."""

from __future__ import annotations

import base64
import gzip
import http.client
import json
import os
import subprocess
import sys
import tarfile
import threading
from collections import Counter
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from itertools import count
from statistics import median
from time import monotonic, perf_counter, sleep
from typing import TYPE_CHECKING, Any

from rich.table import Table

from benchmarks.service import PARALLEL, serving
from tests.e2e.daemon import FINAL, Client
from tests.e2e.pipelines import Graph, one
from tests.e2e.sources import archive
from tests.git_repository import GitRepository
from tests.waiting import until

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from benchmarks.service import Service
    from benchmarks.testbed import Testbed

_ROUNDS = 2
_QUIET_SECONDS, _ATTACKED_SECONDS = 8.0, 15.0
_CHOSEN = "BENCHMARK_ATTACKS"
"""The variable that names attacks to make, such as ``reports,renders``; all by default."""

_ONSET_SECONDS = 1.5
"""The beginning of an attack, which is not measured."""

_CALM_SECONDS = 120.0
_PROBE_SECONDS = 0.02
_BUILD_SECONDS = 120.0
_LINE = 128 * 2**10
_REPORT_BYTES = 10 * 2**20
_SECRET_LINES = 7_200
_PUSHES = 400
_LEVELS, _ENTRIES = 10, 10
_FILE = ".hm/pipeline.py"
_PIPELINE = """
import harmont as hm

@hm.pipeline("ci", triggers=[hm.push(branch="*")])
def ci():
    return hm.sh("echo line")
"""
_LINES = (r"\033[", "http://", "a", "0", r"\303\251", "<", " ")
"""Texts that long lines are made of, each a worst case of something that shows them."""

_PUBLIC = ("/api/v0/openapi.json", "/login", "/{org}", "/{org}/pipelines/{pipeline}", "{build}", "{build}?view=graph")

_Request = tuple[str, str, str | None, dict[str, str]]


@dataclass(frozen=True)
class _Attack:
    """Requests that are sent again and again, each connection with a pause after each answer."""

    name: str
    requests: Sequence[_Request]
    connections: int
    pause: float = 0.0


@dataclass
class _Times:
    """Milliseconds of each answer of ``/healthz``, and of each build from its POST to its first line."""

    health: list[float] = field(default_factory=list)
    first_lines: list[float] = field(default_factory=list)


@dataclass
class _Attacker:
    """An organization that attacks, with its pipeline, and with a session of its owner in the console."""

    service: Service
    client: Client

    def __post_init__(self) -> None:
        self.pipeline = self.client.pipeline()
        answer = self.client.request("PATCH", f"pipelines/{self.pipeline.slug}", json={"visibility": "public"})
        answer.raise_for_status()
        self.builds = f"/api/v0/organizations/{self.client.org}/pipelines/{self.pipeline.slug}/builds"
        self.headers = {"Authorization": f"Bearer {self.client.token}", "Content-Type": "application/json"}
        signed_in = self.client.request(
            "POST", "/login/session", headers={"Authorization": f"Bearer {self.client.session()}"}
        )
        self.cookie = {"Cookie": signed_in.headers["Set-Cookie"].partition(";")[0]}

    def built(self, ir: str) -> str:
        """Run a build to its end; return the path of its page."""
        build = self.pipeline.build(ir)
        build.finish(_BUILD_SECONDS)
        return f"/{self.client.org}/{build.path}"

    def posting(self, **fields: str) -> _Request:
        """Return the request for a build."""
        body = json.dumps({"branch": "main", "commit": "0" * 40, **fields})
        return ("POST", self.builds, body, self.headers)

    def posting_source(self, packed: bytes) -> _Request:
        """Return the request for a build of a source archive."""
        return self.posting(source_b64=base64.b64encode(packed).decode())

    def calm(self) -> None:
        """Cancel all builds of the organization, and wait for their end."""
        address = self.service.daemon.url.removeprefix("http://")
        deadline = monotonic() + _CALM_SECONDS
        with closing(http.client.HTTPConnection(address)) as connection:
            while left := list(self._unfinished(connection)):
                for build in left:
                    connection.request("PUT", f"{build}/cancel", headers=self.headers)
                    connection.getresponse().read()
                if monotonic() > deadline:
                    raise RuntimeError(f"{len(left)} builds of the attack do not end")
                sleep(_PROBE_SECONDS)

    def _unfinished(self, connection: http.client.HTTPConnection) -> Iterator[str]:
        path = f"/api/v0/organizations/{self.client.org}/pipelines"
        for pipeline in self.client.get(path)["data"]:
            page = f"{path}/{pipeline['slug']}/builds?limit=100"
            connection.request("GET", page, headers=self.headers)
            for build in json.loads(connection.getresponse().read())["data"]:
                if build["state"] not in FINAL:
                    yield f"{path}/{pipeline['slug']}/builds/{build['number']}"


class AttackBenchmark:
    """For each attack the times of others with and without it, in turns."""

    name = "attacks"
    title = "Another organization's builds, and /healthz, beside attacks: milliseconds, median and 99th percentile"
    baseline = (
        "the same without an attack, of all turns of the run: one before each turn of an attack. `n` counts what was"
        " measured without and with it, `done` what the service answered to the attack."
    )

    def report(self, testbed: Testbed) -> Table:
        """Measure, and return two lines for each attack."""
        made = Table(box=None, pad_edge=False, header_style="bold")
        for heading in ("attack", "of others"):
            made.add_column(heading)
        for heading in ("quiet", "p99", "attacked", "p99", "ratio", "n"):
            made.add_column(heading, justify="right")
        made.add_column("done")
        share = {"CI_DAEMON_POOL_MAX_VMS_PER_ORGANIZATION": str(PARALLEL // 2)}  # as where strangers build
        quiet = _Times()
        results: list[tuple[str, _Times, Counter[str]]] = []
        with serving(testbed, **share) as service:
            victim = _Victim(service)
            victim.watch(_QUIET_SECONDS)  # what is made at the first use is made now
            for make in _chosen():
                client = Client.create(service.daemon, f"{make.__name__.strip('_')}@example.org", 10**7)
                attacker = _Attacker(service, client)
                attack = make(attacker, testbed)
                results.append((attack.name, *_measure(victim, attacker, attack, quiet)))
        for name, attacked, answers in results:
            for label, without, beside in (
                ("/healthz", quiet.health, attacked.health),
                ("first line", quiet.first_lines, attacked.first_lines),
            ):
                figures = [f"{each:,.1f}" for times in (without, beside) for each in (median(times), _p99(times))]
                ratio = f"{_p99(beside) / _p99(without):.2f}"
                done = ", ".join(f"{number} of {status}" for status, number in sorted(answers.items()))
                made.add_row(name, label, *figures, ratio, f"{len(without)}, {len(beside)}", done)
        return made


class _Victim:
    """An organization that has builds of ever other files, one after the other."""

    def __init__(self, service: Service) -> None:
        self._service = service
        self._numbers = count()

    def watch(self, seconds: float) -> _Times:
        """Build, and ask ``/healthz``, for some seconds."""
        times, ended = _Times(), threading.Event()
        probe = threading.Thread(target=self._probe, args=(times.health, ended))
        probe.start()
        try:
            deadline = monotonic() + seconds
            while monotonic() < deadline:
                times.first_lines.append(self._build())
        finally:
            ended.set()
            probe.join()
        return times

    def _build(self) -> float:
        files = {_FILE: _PIPELINE.replace('"ci"', '"bench"'), "file": str(next(self._numbers))}
        source = base64.b64encode(archive(files)).decode()
        started = perf_counter()
        return self._service.first_byte(self._service.post({"source_b64": source}), started)

    def _probe(self, times: list[float], ended: threading.Event) -> None:
        address = self._service.daemon.url.removeprefix("http://")
        with closing(http.client.HTTPConnection(address)) as connection:
            while not ended.wait(_PROBE_SECONDS):
                started = perf_counter()
                connection.request("GET", "/healthz")
                connection.getresponse().read()
                times.append((perf_counter() - started) * 1000)


def _measure(victim: _Victim, attacker: _Attacker, attack: _Attack, quiet: _Times) -> tuple[_Times, Counter[str]]:
    """Return the times beside an attack, and what was answered to it.

    Those of the turns without it are added to ``quiet``.
    """
    attacked, answers = _Times(), Counter[str]()
    for turn in range(_ROUNDS):
        _extend(quiet, victim.watch(_QUIET_SECONDS))
        with _attacking(attacker.service, attack, turn, answers):
            sleep(_ONSET_SECONDS)
            _extend(attacked, victim.watch(_ATTACKED_SECONDS))
        attacker.calm()
    return attacked, answers


def _extend(all_times: _Times, times: _Times) -> None:
    all_times.health += times.health
    all_times.first_lines += times.first_lines


@contextmanager
def _attacking(service: Service, attack: _Attack, turn: int, answers: Counter[str]) -> Iterator[None]:
    """Let a program of low priority send the requests of an attack meanwhile."""
    host, _, port = service.daemon.url.removeprefix("http://").rpartition(":")
    requests = attack.requests[turn::_ROUNDS] if len(attack.requests) >= _PUSHES else attack.requests
    plan = {
        "address": (host, int(port)),
        "requests": requests,
        "connections": attack.connections,
        "pause": attack.pause,
    }
    argv = [sys.executable, "-m", "benchmarks.attackers"]
    with subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as program:
        try:
            assert program.stdin
            assert program.stdout
            print(json.dumps(plan), file=program.stdin, flush=True)
            yield
            program.stdin.close()
            answers.update(json.loads(program.stdout.readline()))
        finally:
            program.kill()


def _p99(times: Sequence[float]) -> float:
    return sorted(times)[int(len(times) * 0.99)]


def _commits(attacker: _Attacker, testbed: Testbed) -> _Attack:
    """Push commits of some objects with 10^10 paths."""
    daemon = attacker.service.daemon
    repository = GitRepository(testbed.folder / "attacking")
    first = repository.commit("Begin", **{_FILE.replace("/", "__"): _PIPELINE})
    repository.push("main")
    bare = repository.bare
    daemon.command("repo", "connect", str(bare), "--org", attacker.client.org, "--poll", "86400")
    until(lambda: daemon.json("repo", "list")[0]["checked_at"], "the first check", _BUILD_SECONDS)
    (bare / "hooks" / "post-receive").unlink()
    token = (bare / "ci-daemon.token").read_text().strip()
    found = repository.git("hash-object", "-w", "--stdin", data=b"")
    mode, kind = "100644", "blob"
    for _ in range(_LEVELS):
        entries = "".join(f"{mode} {kind} {found}\t{number}\n" for number in range(_ENTRIES))
        found, mode, kind = repository.git("mktree", data=entries.encode()), "040000", "tree"
    listed = repository.git("ls-tree", first) + f"\n040000 tree {found}\tpaths\n"
    root = repository.git("mktree", data=listed.encode())
    headers = {"Authorization": f"Bearer {token}", "X-Delivery-Id": "{n}", "Content-Type": "text/plain"}
    requests: list[_Request] = []
    refs = []
    for number in range(_PUSHES):
        commit = repository.git("commit-tree", root, "-p", first, "-m", f"Many paths {number}")
        refs.append(f"{commit}:refs/heads/paths-{number}")
        requests.append(("POST", "/webhooks/git", f"{'0' * 40} {commit} refs/heads/paths-{number}\n", headers))
    repository.push(*refs)
    return _Attack("commits of 10^10 paths", requests, 4, 0.8)


def _printed() -> str:
    """Return a command that prints long lines, and writes each to a file."""
    return "\n".join(
        f"printf '{text}%.0s' $(seq {_LINE // 8}) | head -c {_LINE} >line-{number}.txt; cat line-{number}.txt; echo"
        for number, text in enumerate(_LINES)
    )


def _long_lines(attacker: _Attacker, _testbed: Testbed) -> _Attack:
    """Read lines of 128 KiB of a public log as strangers."""
    build = attacker.built(one(_printed()))
    (job,) = attacker.client.get(f"/api/v0/organizations{build}/jobs")["data"]
    page = f"{build}/jobs/{job['id']}"
    paths = [page, f"{page}/log/outline", f"{page}/log/search?q=0a", f"{page}/log"]
    return _Attack("lines of 128 KiB in a public log", [("GET", path, None, {}) for path in paths], 8)


def _long_artifacts(attacker: _Attacker, _testbed: Testbed) -> _Attack:
    """Open artifacts of 128 KiB in a line."""
    graph = Graph().step("only", _printed(), runner_args={"artifacts": ["*.txt"]})
    build = attacker.built(graph.ir())
    kept = attacker.client.get(f"/api/v0/organizations{build}/artifacts")["data"]
    paths = [f"{build}/artifacts/{each['id']}" for each in kept]
    return _Attack("artifacts of 128 KiB in a line", [("GET", path, None, attacker.cookie) for path in paths], 8)


def _archives(attacker: _Attacker, _testbed: Testbed) -> _Attack:
    """Send archives of few bytes that take long to read."""
    digits = tarfile.TarInfo("pax")
    digits.type, digits.size = tarfile.XHDTYPE, 1_000_000
    slow = digits.tobuf() + b"0" * 1_000_448 + tarfile.TarInfo("a").tobuf() + bytes(1024)
    many = b"".join(tarfile.TarInfo(f"{number}").tobuf() for number in range(200_000)) + bytes(1024)
    requests = [attacker.posting_source(gzip.compress(each)) for each in (slow, many)]
    return _Attack("source archives that are slow to read", requests, 4)


def _reports(attacker: _Attacker, _testbed: Testbed) -> _Attack:
    """Open the tests of builds with XML of the worst kinds."""
    script = f"""
python3 - <<'END'
case = '<testcase classname="c" name="n"><failure message="' + 'm' * 100 + '">' + 'x' * 100 + '</failure></testcase>'
size = {_REPORT_BYTES}
open('many.xml', 'w').write('<testsuite>' + case * ((size - 100) // len(case)) + '</testsuite>')
open('deep.xml', 'w').write('<testsuite>' * 400_000 + '</testsuite>' * 400_000)
open('attributes.xml', 'w').write('<testsuite ' + ' '.join(f'a{{n}}="1"' for n in range(700_000)) + '/>')
for encoding in ('utf-7', 'idna', 'punycode', 'utf-32'):
    with open(encoding + '.xml', 'w') as file:
        file.write(f'<?xml version="1.0" encoding="{{encoding}}"?><testsuite>' + case * (size // 2 // len(case)))
END
"""
    graph = Graph().step("only", script, runner_args={"artifacts": ["*.xml"]}).ir()
    page = ("GET", f"{attacker.built(graph)}?view=tests", None, attacker.cookie)
    return _Attack("reports of the worst kinds", [page, page, page, attacker.posting(pipeline_ir=graph)], 4, 0.5)


def _secrets(attacker: _Attacker, _testbed: Testbed) -> _Attack:
    """Print much in jobs that have a secret of many lines."""
    lines = "\n".join(f"l{number:06}" for number in range(_SECRET_LINES))
    path = f"pipelines/{attacker.pipeline.slug}/secrets/LONG"
    attacker.client.request("PUT", path, json={"value": lines}).raise_for_status()
    ir = one("yes 'l000012 l00012 l0001' | head -c 20000000", secrets=["LONG"])
    return _Attack("a secret of 7,200 lines, and much output", [attacker.posting(pipeline_ir=ir)], 1, 2.0)


def _public_pages(attacker: _Attacker, _testbed: Testbed) -> _Attack:
    """Ask for public pages as strangers."""
    build = attacker.built(one("echo line"))
    names = {"org": attacker.client.org, "pipeline": attacker.pipeline.slug, "build": build}
    return _Attack("public pages", [("GET", path.format(**names), None, {}) for path in _PUBLIC], 8)


def _renders(attacker: _Attacker, _testbed: Testbed) -> _Attack:
    """Post builds that are rendered first, without end."""
    sources = (archive({_FILE: _PIPELINE, "file": str(number)}) for number in range(_PUSHES))
    return _Attack("renders without end", [attacker.posting_source(each) for each in sources], 4, 0.2)


def _builds(attacker: _Attacker, _testbed: Testbed) -> _Attack:
    """Post builds without end."""
    return _Attack("builds without end", [attacker.posting(pipeline_ir=one("sleep 5"))], 4, 0.1)


_ATTACKS: tuple[Callable[[_Attacker, Any], _Attack], ...] = (
    _commits,
    _long_lines,
    _long_artifacts,
    _archives,
    _reports,
    _secrets,
    _public_pages,
    _renders,
    _builds,
)


def _chosen() -> tuple[Callable[[_Attacker, Any], _Attack], ...]:
    """Return the attacks that the environment names, or all."""
    names = os.environ.get(_CHOSEN, "").split(",")
    return tuple(each for each in _ATTACKS if each.__name__.strip("_") in names) or _ATTACKS


ATTACKS = AttackBenchmark()
