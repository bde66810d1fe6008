"""The pipelines in `docs/pipelines.md`: each renders, and plans into jobs."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

from actors.ir import IrSettings, load

PAGE = Path(__file__).parents[2] / "docs" / "pipelines.md"
RENDER = "import runpy, harmont; runpy.run_path('pipeline.py'); print(harmont.dump_registry_json(now=1767225600))"
INPUTS = ("requirements.txt", "package-lock.json", "go.sum", "Cargo.lock")


def fences(language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```", PAGE.read_text(), re.DOTALL | re.MULTILINE)


@pytest.mark.parametrize("source", fences("python"))
def test_an_example_renders_and_plans(source: str, tmp_path: Path):
    (tmp_path / "pipeline.py").write_text(source)
    for name in INPUTS:
        (tmp_path / name).write_text("")
    done = subprocess.run([sys.executable, "-c", RENDER], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    for pipeline in json.loads(done.stdout)["pipelines"]:
        assert load(json.dumps(pipeline["definition"]), IrSettings()).jobs


def test_the_json_example_plans():
    (source,) = fences("json")
    assert len(load(source, IrSettings()).jobs) == 3


def test_all_five_languages_have_an_example():
    headings = re.findall(r"^### (.+)$", PAGE.read_text(), re.MULTILINE)
    assert {"Python", "Node", "Go", "Rust", "C"} <= set(headings)


CACHED = """
import json, sys, harmont as hm
from datetime import timedelta
policies = {"forever": hm.forever(), "ttl": hm.ttl(timedelta(days=1)), "on_change": hm.on_change("go.sum")}
policies["compose"] = hm.compose(hm.forever(), hm.on_change("go.sum"))
@hm.pipeline("ci")
def ci():
    return tuple(hm.sh(sys.argv[1], label=name, cache=policy) for name, policy in policies.items())
nodes = json.loads(hm.dump_registry_json(now=0))["pipelines"][0]["definition"]["graph"]["nodes"]
print(json.dumps({node["step"]["label"]: node["step"]["cache"]["key"] for node in nodes}))
"""


def test_cache_keys_cover_the_documented_fields(tmp_path: Path):
    def keys(command: str, lock: str) -> dict[str, str]:
        (tmp_path / "go.sum").write_text(lock)
        done = subprocess.run([sys.executable, "-c", CACHED, command], cwd=tmp_path, capture_output=True, check=True)
        found: dict[str, str] = json.loads(done.stdout)
        return found

    def changed(after: dict[str, str]) -> set[str]:
        return {name for name, key in keys("make", "1").items() if after[name] != key}

    assert changed(keys("make all", "1")) == {"forever", "ttl", "compose"}
    assert changed(keys("make", "2")) == {"on_change", "compose"}
