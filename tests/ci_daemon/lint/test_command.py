"""`ci-daemon lint` as a process, with one render in a VM."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

PIPELINES = """import harmont as hm


@hm.pipeline("bad")
def bad():
    first = hm.scratch().sh("make", label="Make", runner_args={"cpu": 99})
    return first.sh("", label="Empty")


@hm.pipeline("good", triggers=[hm.push(branch="main")])
def good():
    return hm.sh("make", label="Make it", image="debian:12").sh("make check", label="Check", cache=None)
"""


FAILING = """import harmont as hm


@hm.pipeline("nonsense")
def nonsense():
    return hm.sh("make", nonsense=1)


@hm.pipeline("nothing")
def nothing():
    return 7
"""
REFUSED = (
    "  → hm.target: cannot use int as a pipeline leaf",
    "  → return one of: Step, tuple[Step, ...], RustProject, RustToolchain, JsProject, UvProject",
)


def lint(cache: Path, images: Path, *arguments: object) -> subprocess.CompletedProcess[str]:
    environ = {**os.environ, "XDG_CACHE_HOME": str(cache), "CI_DAEMON_IMAGES_DIR": str(images)}
    command = [sys.executable, "-m", "ci_daemon", "lint", *map(str, arguments)]
    return subprocess.run(command, env=environ, capture_output=True, text=True, timeout=120, check=False)


def test_a_project_is_rendered_and_all_mistakes_are_shown(tmp_path: Path, images_dir: Path):
    tree = tmp_path / "shop"
    (tree / ".hm").mkdir(parents=True)
    (tree / ".hm" / "pipelines.py").write_text(PIPELINES)
    done = lint(tmp_path, images_dir, tree, "--json")
    document = json.loads(done.stdout)
    assert done.returncode == 1, done.stderr
    assert [(each["file"], each["line"], each["step"]) for each in document["mistakes"]] == [
        (".hm/pipelines.py", 6, "make"),
        (".hm/pipelines.py", 7, "empty"),
    ]
    bad, good = document["pipelines"]
    assert bad["jobs"] == []
    assert good["triggers"] == [{"event": "push", "branches": ["main"]}]
    assert [(job["step_key"], job["builds_in"]) for job in good["jobs"]] == [("make-it", None), ("check", "make-it")]

    (tree / ".hm" / "a.py").write_text("import lost\n")
    (tree / ".hm" / "b.py").write_text("x = 1\ny = 1 / 0\n")
    (tree / ".hm" / "c.py").write_text(FAILING)
    done = lint(tmp_path, images_dir, tree)
    assert (done.returncode, done.stdout) == (1, "")
    assert [line for line in done.stderr.splitlines() if not line.startswith("    ")] == [
        ".hm/a.py:1: render_failed: ModuleNotFoundError: No module named 'lost'",
        ".hm/b.py:2: render_failed: ZeroDivisionError: division by zero",
        ".hm/c.py:6: render_failed: TypeError: sh() got an unexpected keyword argument 'nonsense'",
        ".hm/c.py:9: render_failed: TypeError: pipeline 'nothing': invalid return value",
        *REFUSED,
        "mistakes: 4",
    ]
    shown = [line for line in done.stderr.splitlines() if line.startswith("    ")]
    assert shown[:4] == ["    import lost", "    y = 1 / 0", "        ~~^~~", '    return hm.sh("make", nonsense=1)']
    (tree / ".hm" / "d.yml").write_text("jobs: {a: {}}\n")
    done = lint(tmp_path, images_dir, tree)
    assert done.stderr.splitlines()[1:3] == ["  1 | jobs: {a: {}}", "    |        ^"]


def test_json_is_checked_and_drawn_without_a_vm(tmp_path: Path):
    file = tmp_path / "ci.json"
    steps = [{"type": "command", "key": "a", "cmd": "make"}, {"type": "command", "key": "b", "cmd": 'echo "<b>"'}]
    file.write_text(json.dumps({"version": "0", "steps": [steps[0], {"type": "wait"}, {**steps[1], "builds_in": "a"}]}))
    nowhere = tmp_path / "nowhere"
    shown = lint(nowhere, nowhere, tmp_path, "--ir", file)
    assert (shown.returncode, shown.stderr) == (0, "")
    assert shown.stdout.splitlines()[-3].split()[:2] == ["a", "make"]
    dot = lint(nowhere, nowhere, tmp_path, "--ir", file, "--dot").stdout
    assert '    s1 [label="echo \\"<b>\\""];\n    s0 -> s1;\n' in dot
    mermaid = lint(nowhere, nowhere, tmp_path, "--ir", file, "--mermaid").stdout
    assert '    s1["echo #34;#60;b#62;#34;"]\n    s0 --> s1\n' in mermaid
