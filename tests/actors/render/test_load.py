"""The loader of VMs, on this host: what it completes of the DSL, and what shells make of that."""

from __future__ import annotations

import inspect
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from actors.ir import IrSettings, load
from actors.render.guest.load import in_folder
from storage import EdgeKind, NewJob
from tests.rendering import envelope, planned

SHELLS = ("bash", "dash")


def pipeline(tmp_path: Path, steps: str) -> tuple[NewJob, ...]:
    """Return the jobs of a pipeline file that returns these steps."""
    file = tmp_path / "pipeline.py"
    file.write_text(f"import harmont as hm\n\n@hm.pipeline('ci')\ndef ci():\n    return ({steps},)\n")
    return planned(file, tmp_path)["ci"].jobs


def flat(*steps: dict[str, Any] | bool) -> tuple[NewJob, ...]:
    """Return the jobs of a flat document; a wait is given as if it goes on after a failure."""
    written = [
        {"type": "wait", "continue_on_failure": each} if isinstance(each, bool) else {"type": "command", **each}
        for each in steps
    ]
    return load(json.dumps({"version": "0", "steps": written}), IrSettings()).jobs


def shell(command: str, folder: Path, name: str = "bash") -> tuple[int, str]:
    done = subprocess.run([name, "-c", command], cwd=folder, capture_output=True, text=True, check=False)
    return done.returncode, done.stdout


@pytest.mark.parametrize("name", SHELLS)
@pytest.mark.parametrize("command", ["echo a\necho b", "\n  echo a\n  echo b\n", "echo a; echo b", "false || echo b"])
def test_a_step_whose_folder_is_missing_runs_nothing(tmp_path: Path, name: str, command: str):
    (job,) = pipeline(tmp_path, f"hm.sh({command!r}, cwd='nope')")
    exit_code, printed = shell(job.command, tmp_path, name)
    assert (exit_code != 0, printed) == (True, "")


@pytest.mark.parametrize("name", SHELLS)
@pytest.mark.parametrize("folder", ["sub dir", "it's", 'a "b"', "$HOME", "a;b", "-x", "~", "*", "a\nb", "ü"])
def test_a_step_runs_in_a_folder_of_any_name(tmp_path: Path, name: str, folder: str):
    (tmp_path / folder).mkdir()
    (job,) = pipeline(tmp_path, f"hm.sh('pwd\\npwd', cwd={folder!r})")
    assert shell(job.command, tmp_path, name) == (0, f"{tmp_path / folder}\n" * 2)


@pytest.mark.parametrize(
    "made",
    [
        "hm.sh('true', cwd='a b')",
        "hm.scratch().sh('true', cwd='a b')",
        "hm.scratch().sh(cmd='true', cwd='a b')",
        "hm.sh('make').fork().sh('true', cwd=__import__('pathlib').Path('a b'))",
        "hm.timeout('5m', hm.sh('true', cwd='a b'))",
    ],
)
def test_every_way_to_give_a_folder_is_quoted(tmp_path: Path, made: str):
    assert pipeline(tmp_path, made)[-1].command == "cd 'a b' || exit; true"


def test_an_ordinary_folder_is_a_name_that_can_be_read(tmp_path: Path):
    (job,) = pipeline(tmp_path, "hm.sh('\\n    npm ci\\n    npm test', cwd='web')")
    assert job.name == "cd web || exit; npm ci"
    assert in_folder(" \n", "web") == ""


def test_the_installed_dsl_still_leaves_folders_unquoted():
    """If this fails, look if the new form of the DSL fails for a missing folder, with several lines too."""
    written = "from harmont._step import Step; print(Step().sh('a', cwd='b').cmd)"
    done = subprocess.run([sys.executable, "-c", written], capture_output=True, text=True, check=True)
    assert done.stdout == "cd b && a\n"


TOOLCHAINS = {
    "hm.go(path={}).test()": "cd server && go test",
    "hm.go.vet(path={})": "cd server && go vet",
    "hm.cmake(path={}).test()": "ctest --test-dir server/build",
    "hm.cmake().project(path={}).test()": "ctest --test-dir server/build",
    "hm.elixir(path={}).test()": "cd server && mix test",
    "hm.js.project(path={}, pm='npm').run('test')": "cd server && npm run test",
    "hm.python(path={}).test()": "cd server && uv run pytest",
    "hm.rust.toolchain(path={}).test()": "cd server && cargo test",
    "hm.rust.project(path={}).test()": "cd server && cargo",
    "hm.zig().project(path={}).test()": "cd server && zig build test",
}


@pytest.mark.parametrize(("made", "command"), TOOLCHAINS.items())
def test_a_toolchain_tells_of_a_folder_it_cannot_write(tmp_path: Path, made: str, command: str):
    for folder in ("server", "sub dir"):
        (tmp_path / folder).mkdir()
        for name in ("mix.lock", "package.json", "package-lock.json", "uv.lock", "pyproject.toml", "CMakeLists.txt"):
            (tmp_path / folder / name).write_text("{}")
        for name in ("Cargo.toml", "Cargo.lock"):
            (tmp_path / folder / name).write_text("[package]\n")
    assert any(command in job.command for job in pipeline(tmp_path, made.format("'server'")))
    assert "rename the folder, or write the steps as hm.sh(..., cwd='sub dir')" in refused(
        tmp_path, made.format("'sub dir'")
    )


@pytest.mark.parametrize("folder", ["a b", "it's", "a;b", "a&b", "(a)", "a\nb", "#a", ""])
def test_a_toolchain_refuses_what_is_not_one_word(tmp_path: Path, folder: str):
    assert f"the path {folder!r} of a toolchain is not one word" in refused(tmp_path, f"hm.go.test(path={folder!r})")


@pytest.mark.parametrize("folder", [".", "a/b", "'a b'", r"a\ b", "$HOME/a", "ü", "a#b"])
def test_a_toolchain_takes_a_folder_that_is_quoted(tmp_path: Path, folder: str):
    assert pipeline(tmp_path, f"hm.go.test(path={folder!r})")[-1].command == f"cd {folder} && go test ./..."


def refused(tmp_path: Path, steps: str) -> str:
    """Return the last lines that the loader prints of a pipeline file that it refuses."""
    with pytest.raises(AssertionError) as caught:
        pipeline(tmp_path, steps)
    return str(caught.value)


A, B, C, D = ({"key": key, "cmd": key} for key in "abcd")
STEPS = "hm.sh('a', key='a')", "hm.sh('b', key='b')", "hm.sh('c', key='c')", "hm.sh('d', key='d')"


@pytest.mark.parametrize(
    "waits",
    [
        [[True], [], []],
        [[False], [True], []],
        [[True], [False], []],
        [[True], [True], []],
        [[True], [False], [False]],
        [[False], [True], [False]],
        [[True], [True], [False]],
        [[True, False], [], []],
        [[False, False], [], []],
        [[True, True], [True], []],
    ],
)
def test_waits_mean_the_same_as_in_the_flat_shape(tmp_path: Path, waits: list[list[bool]]):
    """The graph leaves out edges that others imply, so what each job needs is compared."""
    written, document = [], []
    for step, source, after in zip((A, B, C, D), STEPS, [*waits, []], strict=True):
        written += [source, *(f"hm.wait(continue_on_failure={each})" for each in after)]
        document += [step, *after]
    assert needs(pipeline(tmp_path, ", ".join(written))) == needs(flat(*document))


def needs(jobs: tuple[NewJob, ...]) -> dict[str, tuple[set[str], set[str]]]:
    """Return the jobs that must have ended, and those that must have passed, before each job runs."""
    found: dict[str, tuple[set[str], set[str]]] = {}
    for job in jobs:
        ended, passed = set(), set()
        for each in job.depends_on:
            source = jobs[each.position].step_key
            ended |= {source} | found[source][0]
            if not each.continue_on_failure:
                passed |= {source} | found[source][1]
        found[job.step_key] = ended, passed
    return found


def test_a_disk_is_needed_also_behind_a_wait_that_goes_on(tmp_path: Path):
    file = tmp_path / "pipeline.py"
    file.write_text(
        inspect.cleandoc("""
        import harmont as hm

        @hm.pipeline("ci")
        def ci():
            test = hm.sh("a", key="a", cache=hm.forever())
            return test, hm.wait(continue_on_failure=True), test.sh("b", key="b", cache=hm.forever())
        """)
    )
    (needed,) = planned(file, tmp_path)["ci"].jobs[1].depends_on
    assert (needed.kind, needed.continue_on_failure) == (EdgeKind.BUILDS_IN, False)


def test_what_the_dsl_says_itself_is_left_as_it_is(tmp_path: Path):
    """Documents of pipelines without folders and such waits are byte for byte those of the DSL."""
    (tmp_path / ".hm").mkdir()
    text = f"import harmont as hm\n\n@hm.pipeline('ci')\ndef ci():\n    return ({', hm.wait(), '.join(STEPS)})\n"
    (tmp_path / ".hm" / "ci.py").write_text(text)
    plain = "import runpy, harmont; runpy.run_path('.hm/ci.py'); print(harmont.dump_registry_json())"
    argv = [sys.executable, "-c", plain]
    done = subprocess.run(argv, cwd=tmp_path, capture_output=True, text=True, check=True)
    assert envelope(tmp_path) == done.stdout.strip()
