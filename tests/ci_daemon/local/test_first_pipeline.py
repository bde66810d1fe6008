"""The first pipeline of a project, from `ci-daemon new` to the end of its build, without a service."""

from __future__ import annotations

import logging
from pathlib import Path

import pytest

from ci_daemon.command import main
from tests.ci_daemon.local.projects import Project, rest


def test_the_first_pipeline_passes_when_it_is_run(project: Project):
    (project.tree / "README").write_text("no language at all\n")
    assert main(["new", str(project.tree)]) == 0
    with project.start_rendered() as process:
        printed = rest(process)
        assert process.wait(60) == 0, printed
    assert "Replace this by the commands that test the project." in printed


def test_what_render_prints_without_a_service_runs(
    project: Project, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
):
    monkeypatch.setattr("ci_daemon.command.DEFAULT_STATE_DIR", tmp_path / "none")
    monkeypatch.setenv("XDG_CACHE_HOME", str(project.cache))
    monkeypatch.setenv("CI_DAEMON_IMAGES_DIR", str(project.images))
    assert main(["new", "--python", str(project.tree)]) == 0
    capsys.readouterr()
    assert main(["render", str(project.tree)]) == 0
    logging.getLogger("after it").warning("its log is closed")
    rendered = capsys.readouterr()
    assert "Logging error" not in rendered.err
    (project.tree / "pipeline.json").write_text(rendered.out)
    code, printed = project.run()
    assert code == 0, printed
    assert not (tmp_path / "none").exists()


def test_a_plan_is_printed_and_nothing_runs(project: Project):
    (project.tree / ".hm").mkdir()
    text = "jobs: {a: {run: touch ran}, b: {needs: a, run: x, when: {branch: nope}}}"
    (project.tree / ".hm" / "ci.yml").write_text(text)
    with project.start_rendered("--plan") as process:
        printed = rest(process)
        assert process.wait(60) == 0, printed
    rows = [line.split(maxsplit=1) for line in printed.splitlines()]
    assert ["a", "the default image"] in rows
    assert 'the branch is "main", and it runs for "nope"' in printed
    assert "running" not in printed
    assert project.vms() == []


@pytest.mark.parametrize("arguments", [("lint",), ("render",), ("run", "--plan"), ("run",)])
def test_mistakes_in_yaml_are_told_before_an_image_is_made(
    project: Project,
    arguments: tuple[str, ...],
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    tmp_path: Path,
):
    monkeypatch.setattr("ci_daemon.command.DEFAULT_STATE_DIR", tmp_path / "none")
    monkeypatch.setenv("XDG_CACHE_HOME", str(project.cache))
    monkeypatch.setenv("CI_DAEMON_IMAGES_DIR", str(tmp_path / "images"))
    (project.tree / ".hm").mkdir()
    file = project.tree / ".hm" / "ci.yml"
    file.write_text("jobs: {a: {rum: x}}")
    assert main([*arguments, str(project.tree)]) == 1
    printed = capsys.readouterr().err
    assert '.hm/ci.yml:1:12: invalid_ir: jobs.a.rum: unknown key "rum": did you mean "run"?' in printed
    assert "making the image" not in printed
    file.write_text("jobs: {a: {run: x}}")
    if arguments[0] != "run":
        assert main([*arguments, str(project.tree)]) == 0
    assert not (tmp_path / "images").exists()
