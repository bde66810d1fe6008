"""Services beside jobs of other systems: as they are there, or the job is left out."""

from __future__ import annotations

from typing import Any

import pytest

from actors.ir.systems import Omissions, convert_github, convert_gitlab, read
from tests.actors.ir.systems.translation import Translated

GITHUB = (
    "on: push\njobs:\n  a: {runs-on: docker, container: c, steps: [{run: x}], services: {db: {image: postgres, %s}}}\n"
)
GITLAB = "a: {image: c, script: x, variables: {A: b}, services: [%s]}"
WOODPECKER = "steps: [{name: a, image: c, commands: [x]}%s]\nservices: [{name: db, image: 'postgres:16', %s}]"


def services(translated: Translated) -> Any:
    return translated.pipelines[0].document["jobs"]["a"]["services"] if translated.pipelines else None


def github(member: str) -> Translated:
    omissions = Omissions("f")
    return Translated((convert_github(read(GITHUB % member), "ci", omissions), omissions.all))


def gitlab(service: str) -> Translated:
    omissions = Omissions("f")
    return Translated((convert_gitlab(read(GITLAB % service), omissions), omissions.all))


@pytest.mark.parametrize(
    ("member", "expected"),
    [
        ("env: {A: 1}", {"env": {"A": "1"}}),
        ("ports: [5432, '80:80', '9/tcp']", {}),
        ('options: --health-cmd "pg_isready -U a" --health-retries 5', {"ready": "pg_isready -U a"}),
        ("options: --health-cmd=pg_isready", {"ready": "pg_isready"}),
    ],
)
def test_services_of_github(member: str, expected: dict[str, object]):
    assert services(github(member)) == {"db": {"image": "postgres", **expected}}


@pytest.mark.parametrize(
    "member",
    [
        "env: {A: '${{ secrets.B }}'}",
        "ports: ['8080:80']",
        "options: --network-alias x",
        "options: '--health-cmd \"x'",
        "volumes: ['/a:/b']",
        "credentials: {username: a}",
    ],
)
def test_a_job_of_github_whose_service_differs_is_left_out(member: str):
    found = github(member)
    assert (found.pipelines, len(found.losses)) == ((), 1)


@pytest.mark.parametrize(
    ("service", "host", "expected"),
    [
        ("postgres:16", "postgres", {"image": "postgres:16", "ready": 5432}),
        ("{name: 'registry.example.org/team/app:1', alias: app}", "app", {"image": "registry.example.org/team/app:1"}),
        ("'registry.example.org/team/app:1'", "team-app", {"image": "registry.example.org/team/app:1"}),
        ("{name: redis, command: [redis-server, --port, '1']}", "redis", None),
        ("{name: a, variables: {C: d}}", "a", {"image": "a", "env": {"A": "b", "C": "d"}}),
    ],
)
def test_services_of_gitlab(service: str, host: str, expected: dict[str, object] | None):
    found = services(gitlab(service))[host]
    if expected is None:
        assert found["command"] == ["redis-server", "--port", "1"]
    else:
        assert found == {"env": {"A": "b"}, **expected}


@pytest.mark.parametrize(
    "service", ["docker:27-dind", "{name: a, entrypoint: [b]}", "{name: a, alias: 'b c'}", "$UNKNOWN"]
)
def test_a_job_of_gitlab_whose_service_differs_is_left_out(service: str):
    found = gitlab(service)
    assert (found.pipelines, len(found.losses)) == ((), 1)


def test_services_have_secrets_of_their_own_names():
    found = Translated.woodpecker(WOODPECKER % ("", "environment: {A: {from_secret: A}, B: c}"))
    assert services(found)["db"] == {"image": "postgres:16", "env": {"B": "c"}, "secrets": ["A"], "ready": 5432}
    assert (found.losses, "secret set" in found.told("services.A")) == ([], True)
    assert found.plan().jobs[0].secrets == ("A",)
    of_github = github("env: {A: '${{ secrets.A }}', B: c}")
    assert services(of_github)["db"]["secrets"] == ["A"]
    another = WOODPECKER.replace("[x]", "[x], environment: {A: b}") % ("", "environment: {A: {from_secret: A}}")
    other = Translated.woodpecker(another)
    assert (other.pipelines, "another value of A" in str(other.omissions)) == ((), True)


def test_services_of_woodpecker_are_beside_each_step():
    alone = Translated.woodpecker(WOODPECKER % ("", "environment: {A: b}"))
    assert services(alone) == {"db": {"image": "postgres:16", "env": {"A": "b"}, "ready": 5432}}
    assert alone.losses == []
    several = Translated.woodpecker(WOODPECKER % (", {name: b, image: c, commands: [y]}", "environment: {A: b}"))
    assert several.losses == ["services"]
    assert "begin anew" in several.told("services")


@pytest.mark.parametrize(
    "member", ["environment: {A: {from_secret: b}}", "volumes: [a]", "commands: [x]", "when: {event: tag}"]
)
def test_steps_beside_a_service_that_differs_are_left_out(member: str):
    found = Translated.woodpecker(WOODPECKER % ("", member))
    assert (found.pipelines, len(found.losses)) == ((), 1)
