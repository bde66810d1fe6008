"""The pipelines in `docs/pipelines.md` and `examples/`: each renders, and plans into jobs."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

from actors.ir import IrSettings, load
from ci_daemon.lint.shell_lines import hides_failures
from tests.rendering import planned

CHECKOUT = Path(__file__).parents[2]
PAGE = CHECKOUT / "docs" / "pipelines.md"
EXAMPLES = sorted((CHECKOUT / "examples").glob("*/.hm/pipeline.py"))


def fences(language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```", PAGE.read_text(), re.DOTALL | re.MULTILINE)


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda example: str(example.relative_to(CHECKOUT)))
def test_an_example_renders_and_plans(example: Path):
    (plan,) = planned(example, example.parents[1]).values()
    assert len(plan.jobs) > 1
    assert not any(hides_failures(job.command) for job in plan.jobs)


@pytest.mark.parametrize("source", [each for each in fences("python") if each not in map(Path.read_text, EXAMPLES)])
def test_a_pipeline_of_the_page_renders_and_plans(source: str, tmp_path: Path):
    (tmp_path / "pipeline.py").write_text(source)
    plans = planned(tmp_path / "pipeline.py", tmp_path).values()
    assert all(plan.jobs for plan in plans)
    assert not any(hides_failures(job.command) or plan.warnings for plan in plans for job in plan.jobs)


def test_the_json_example_plans():
    (source,) = fences("json")
    assert len(load(source, IrSettings()).jobs) == 3


def test_the_page_shows_the_examples_of_five_languages():
    section = PAGE.read_text().partition("\n## Five examples\n")[2].partition("\n## ")[0]
    shown = re.findall(r"^### (\w+)\n.*?^```python\n(.*?)^```", section, re.DOTALL | re.MULTILINE)
    of_languages = [each for each in EXAMPLES if each.parents[1].name != "hello"]
    assert {name.lower(): text for name, text in shown} == {e.parents[1].name: e.read_text() for e in of_languages}


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
