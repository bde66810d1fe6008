"""Jobs that run the program of their image in place of a command."""

from __future__ import annotations

import json
from typing import Any

import pytest

from actors.vms.images.image import ImageProgram
from storage import Build
from tests.actors.conftest import Host

pytestmark = pytest.mark.sandbox


def built(host: Host, program: ImageProgram, monkeypatch: pytest.MonkeyPatch, **keys: Any) -> Build:
    """Build a job ``only`` that runs an image whose program is this."""
    monkeypatch.setattr(type(host.images), "program", lambda *_: program)
    return host.finish(host.build(json.dumps({"version": "1", "jobs": {"only": {"entrypoint": True, **keys}}})))


def test_the_program_gets_its_own_arguments(host: Host, monkeypatch: pytest.MonkeyPatch):
    program = ImageProgram(("printf", r"%s|%s|\n"), ("a 'b' $HOME", "*"), user="nobody", folder="/tmp")
    build = built(host, program, monkeypatch)
    assert (build.state, host.log(build)) == ("passed", b"a 'b' $HOME|*|\n")


def test_the_program_is_root_in_the_workspace(host: Host, monkeypatch: pytest.MonkeyPatch):
    program = ImageProgram(("python3", "-c", "import os; print(os.getuid(), os.getcwd(), os.environ['A'])"))
    build = built(host, program, monkeypatch, env={"A": "x"})
    assert host.log(build) == b"0 /workspace x\n"


@pytest.mark.parametrize(
    ("program", "code", "exit_code", "said"),
    [
        ((), "image_not_found", None, "has no program of its own: give the step a command"),
        (("no-such",), None, 127, "no-such: there is no such program in its image"),
    ],
)
def test_a_program_that_is_not_there_fails_the_job(
    host: Host, monkeypatch: pytest.MonkeyPatch, program: tuple[str, ...], code: str | None, exit_code: int, said: str
):
    build = built(host, ImageProgram(program), monkeypatch)
    job = host.job(build)
    assert (job.error_code, job.exit_code) == (code, exit_code)
    assert said in (job.error_message or "") + host.log(build).decode()
