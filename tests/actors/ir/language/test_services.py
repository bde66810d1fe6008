"""Services of jobs: what is written, what is planned, and mistakes."""

from __future__ import annotations

from typing import cast

import pytest

from storage import Service

from .files import mistakes, plan

WRITTEN = """
jobs:
  a:
    matrix: {size: ["10"]}
    services:
      db:
        image: "postgres:16"
        env: {A: 1.0}
        command: postgres -c "a b" -N ${{ matrix.size }}
        ready: pg_isready -q
        files: {/var/lib/postgresql/data: /srv/db}
        fails_job: true
        secrets: [B, A]
        memory: 2GB
      cache: {image: "redis:7", command: [redis-server, "a b"], ready: 6379}
      search: {image: search, ready: {log: started, timeout: 2m}}
    memory: 4GB
    secrets: A
    run: x
"""


def test_plan_has_services_as_written() -> None:
    """Every key of a service arrives in the plan, with the values of keys that are left out."""
    (job,) = plan(WRITTEN).jobs
    found = {name: Service.of(cast("dict[str, object]", each)) for name, each in job.services.items()}
    assert list(found) == ["db", "cache", "search"]
    assert found["db"] == Service(
        image="postgres:16",
        env={"A": "1.0"},
        command=("postgres", "-c", "a b", "-N", "10"),
        ready_command="pg_isready -q",
        ready_port=None,
        ready_log=None,
        ready_seconds=60,
        files={"/var/lib/postgresql/data": "/srv/db"},
        fails_job=True,
        secrets=("B", "A"),
    )
    assert "secrets" not in cast("dict[str, object]", job.services["cache"])
    assert (job.secrets, job.shape.memory_gb) == (("A", "B"), 6)
    assert (found["cache"].command, found["cache"].ready_port) == (("redis-server", "a b"), 6379)
    assert (found["search"].ready_log, found["search"].ready_seconds) == ("started", 120)


@pytest.mark.parametrize(
    ("services", "message"),
    [
        ("{Db: {image: x}}", "expected a host name"),
        ("{localhost: {image: x}}", "is the job's own"),
        ("{db: {}}", 'it needs "image"'),
        ("{db: {image: x, imag: y}}", 'did you mean "image"?'),
        ("{db: {image: x, ready: {prt: 1}}}", 'did you mean "port"?'),
        ("{db: {image: x, ready: {timeout: 5s}}}", 'expected one of "command", "port" and "log"'),
        ("{db: {image: x, ready: {port: 1, log: up}}}", 'expected one of "command", "port" and "log"'),
        ("{db: {image: x, secrets: [a b]}}", "secrets"),
        ("{db: {image: x, ready: 70000}}", "expected at most 65535"),
        ("{db: {image: x, files: {data: /srv}}}", "expected a folder's whole path"),
        ("{db: {image: x, files: {/data: /srv/../etc}}}", "expected a folder's whole path"),
        ('{db: {image: x, command: "a \'b"}}', "expected arguments"),
        ('{db: {image: x, ready: "ping ${{ build.branch }}"}}', "what a stranger may choose"),
        ("{" + ", ".join(f"s{number}: {{image: x}}" for number in range(9)) + "}", "expected at most 8"),
    ],
)
def test_wrong_service_is_refused_in_words(services: str, message: str) -> None:
    """The mistake says what was expected, at the place of the service."""
    found = mistakes(f"jobs: {{a: {{run: x, services: {services}}}}}")
    assert any("jobs.a.services" in each and message in each for each in found)
