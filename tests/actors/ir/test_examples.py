"""Documents that the public DSL rendered, and the plans they become."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.actors.ir.documents import lines, planned

DATA = Path(__file__).parents[2] / "data" / "ir"


def definitions() -> Iterator[tuple[str, dict[str, Any]]]:
    for path in sorted(DATA.glob("*.json")):
        document = json.loads(path.read_text())
        for pipeline in document.get("pipelines", [{"slug": "flat", "definition": document}]):
            yield f"{path.stem}.{pipeline['slug']}", pipeline["definition"]


EXAMPLES = dict(definitions())


@pytest.mark.parametrize("name", EXAMPLES)
def test_an_example_becomes_the_plan_kept_beside_it(name: str):
    assert lines(planned(EXAMPLES[name])) == (DATA / "plans" / f"{name}.txt").read_text().splitlines()


def test_every_kept_plan_has_its_example():
    assert {path.stem for path in (DATA / "plans").iterdir()} == set(EXAMPLES)


@pytest.mark.parametrize("name", [name for name in EXAMPLES if "flat" not in name])
def test_an_example_keeps_its_nodes_fields(name: str):
    plan = planned(EXAMPLES[name])
    nodes = {node["step"]["key"]: node for node in EXAMPLES[name]["graph"]["nodes"]}
    assert plan.timeout_seconds == EXAMPLES[name].get("timeout_seconds")
    assert [job.step_key for job in plan.jobs] == list(nodes)
    for job in plan.jobs:
        step = nodes[job.step_key]["step"]
        cache = step.get("cache", {"policy": "none"})
        assert (job.command, job.env) == (step["cmd"], nodes[job.step_key]["env"])
        assert job.timeout_seconds == step.get("timeout_seconds")
        assert (job.cache_policy, job.cache_key) == (cache["policy"], cache.get("key"))


def test_the_flat_example_keeps_its_steps_fields():
    jobs = {job.step_key: job for job in planned(EXAMPLES["06-flat.flat"]).jobs}
    assert jobs["deps"].command == "make deps"
    assert jobs["deps"].cache_policy == "forever"
    assert jobs["deps"].cache_key == "57d1ea97aa9271e132d16707e01df17999146075f86e9f6cfa756fdebc3c1b5c"
    assert jobs["lint"].env == {"CI": "true", "A": "1"}
    assert jobs["report"].env == {"CI": "true"}
