"""`ci-daemon new`: the steps for each language, and a pipeline that is never overwritten."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path

import pytest

from actors.ir import IrSettings, PipelineFile, Plan, load
from ci_daemon.command import main
from ci_daemon.lint.shell_lines import hides_failures
from tests.rendering import documents_of

PROJECTS = {
    "requirements": ({"requirements.txt": "", "test_a.py": ""}, ["Python", "Install", "Python test"], "-m pytest"),
    "setup.cfg": ({"setup.cfg": "[metadata]\n", "setup.py": ""}, ["Python", "Install", "Python test"], "compileall"),
    "new python": (
        {"pyproject.toml": '[project]\nrequires-python = ">=3.13"\n', "a.py": ""},
        ["Install", "Python test"],
        "compileall",
    ),
    "uv": ({"pyproject.toml": "", "uv.lock": ""}, ["Python", "Install", "Python test"], "uv run --frozen"),
    "poetry": ({"pyproject.toml": "", "poetry.lock": ""}, ["Python", "Install", "Python test"], "poetry run"),
    "npm": (
        {"package.json": '{"scripts": {"test": "x", "build": "y"}}', "package-lock.json": "{}"},
        ["Node", "Packages", "Node build", "Node test"],
        "npm run test",
    ),
    "pnpm": ({"package.json": "{}", "pnpm-lock.yaml": ""}, ["Node", "Packages"], "pnpm install --frozen-lockfile"),
    "yarn": ({"package.json": "{}", "yarn.lock": "# v1"}, ["Node", "Packages"], "yarn install --frozen-lockfile"),
    "yarn 2": ({"package.json": "[", "yarn.lock": "__metadata:"}, ["Node", "Packages"], "yarn install --immutable"),
    "go": ({"go.mod": "module a\ngo 1.19\n"}, ["Go", "Go modules", "Go test"], "go test ./..."),
    "new go": ({"go.mod": "module a\ngo 1.23.1\n", "go.sum": ""}, ["Go modules", "Go test"], "go test ./..."),
    "rust": ({"Cargo.toml": "[package]", "Cargo.lock": ""}, ["Rust", "Crates", "Cargo test"], "cargo test --locked"),
    "cmake": ({"CMakeLists.txt": "", "Makefile": ""}, ["Compiler", "Build", "CTest"], "ctest"),
    "make": ({"Makefile": "all:\ntest: all\n"}, ["Compiler", "Make"], "make && make test"),
    "nothing": ({"README": ""}, ["Hello"], "echo"),
    "two": (
        {"go.mod": "go 1.1", "package.json": "{}"},
        ["Node", "Packages", "Go", "Go modules", "Go test"],
        "go test ./...",
    ),
}


@pytest.mark.parametrize("name", PROJECTS)
def test_the_first_pipeline_fits_the_project(name: str, tmp_path: Path):
    files, steps, last = PROJECTS[name]
    for file, text in files.items():
        (tmp_path / file).write_text(text)
    assert main(["new", str(tmp_path)]) == 0
    text = (tmp_path / ".hm" / "ci.yml").read_text()
    declared = PipelineFile.parse(".hm/ci.yml", text).declared(dict.fromkeys(files, "digest"), 0)
    in_yaml = load(json.dumps(declared["definition"]), IrSettings())
    (tmp_path / ".hm" / "ci.yml").unlink()
    assert main(["new", "--python", str(tmp_path)]) == 0
    in_python = planned_python(tmp_path, files)
    assert not any(hides_failures(job.command) for job in in_python.jobs)
    for plan in (in_yaml, in_python):
        assert [job.name.lower() for job in plan.jobs] == [each.lower() for each in steps]
        assert last in plan.jobs[-1].command
        assert all(
            job.cache_key for job in plan.jobs[:-1] if not job.name.startswith(("Node build", "Packages", "Go test"))
        )
    assert in_yaml == in_python


def planned_python(project: Path, files: Iterable[str]) -> Plan:
    """Return the plan of the pipeline in Python that was written for a project with these files."""
    (document,) = documents_of((project / ".hm" / "pipeline.py").read_text())
    declared = PipelineFile.rendered(document).declared(dict.fromkeys(files, "digest"), 0)
    return load(json.dumps(declared["definition"]), IrSettings())


@pytest.mark.parametrize(("lock", "variable"), [("uv.lock", "SSL_CERT_FILE"), ("poetry.lock", "REQUESTS_CA_BUNDLE")])
def test_tools_trust_the_authorities_of_the_image(lock: str, variable: str, tmp_path: Path):
    (tmp_path / lock).touch()
    assert main(["new", "--python", str(tmp_path)]) == 0
    plan = planned_python(tmp_path, [lock])
    assert not any(hides_failures(job.command) for job in plan.jobs)
    assert plan.jobs[1].env[variable] == "/etc/ssl/certs/ca-certificates.crt"


@pytest.mark.parametrize("there", ["ci.yml", "pipeline.py", "other.yaml"])
def test_a_pipeline_that_is_there_is_kept(there: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    (tmp_path / ".hm").mkdir()
    (tmp_path / ".hm" / there).write_text("mine")
    assert main(["new", str(tmp_path)]) == 1
    assert f"{there} exists" in capsys.readouterr().err
    assert [each.read_text() for each in (tmp_path / ".hm").iterdir()] == ["mine"]


def test_a_link_at_the_pipelines_place_is_not_followed(tmp_path: Path):
    (tmp_path / ".hm").mkdir()
    (tmp_path / ".hm" / "ci.yml").symlink_to(tmp_path / "elsewhere")
    assert main(["new", str(tmp_path)]) == 1
    assert not (tmp_path / "elsewhere").exists()


def test_the_answer_says_what_was_found(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    (tmp_path / "go.mod").write_text("module a\n")
    assert main(["new", str(tmp_path), "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert document == {
        "file": str(tmp_path / ".hm" / "ci.yml"),
        "found": [{"language": "Go", "file": "go.mod"}],
    }


def test_editors_are_told_of_a_known_services_schema(tmp_path: Path):
    state = ["--state-dir", str(tmp_path / "state")]
    assert main([*state, "new", str(tmp_path)]) == 0
    first, _, rest = (tmp_path / ".hm" / "ci.yml").read_text().partition("\n")
    assert first == "# yaml-language-server: $schema=http://127.0.0.1:8800/api/v0/pipeline.schema.json"
    assert rest.startswith("# The pipeline of this project")


def test_nothing_is_told_without_a_service(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("ci_daemon.command.support.session.Session.owns_state_dir", lambda _: False)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    assert main(["new", str(tmp_path)]) == 0
    assert "schema" not in (tmp_path / ".hm" / "ci.yml").read_text()
