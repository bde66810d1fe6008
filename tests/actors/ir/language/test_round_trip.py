"""Any pipeline is the same after it was written as YAML, and as JSON, and read again."""

from __future__ import annotations

import json
from typing import Any

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from actors.ir import IrError, IrSettings, load
from actors.ir.language.checking import check
from actors.ir.language.model import Pipeline
from actors.ir.language.yaml_text import read_yaml

WORDS = st.sampled_from(
    ["on", "no", "3.10", "0644", "1e3", "~", "null", "true", "a b", "é: #", "- x", "'", '"q"', "&a", "2026-01-01"]
)
LINES = st.lists(WORDS, min_size=1, max_size=3)
NAMES = st.lists(st.sampled_from(["on", "3.10", "null", "release/*", "v?", "{x}", "é", "&a"]), min_size=1, max_size=3)
PATHS = st.lists(st.sampled_from(["src", "!**/*.md", "dist/*", "a b"]), min_size=1, max_size=2)
ENV = st.dictionaries(st.sampled_from(["A", "_b", "PATH"]), WORDS | st.just("") | st.just("two\nlines\n"), max_size=2)
TIMES = st.sampled_from(["90s", "30m", "1h30m", "2d"])
SIZES = st.sampled_from(["8GB", "1 GiB"])
COMMON: dict[str, st.SearchStrategy[Any]] = {
    "image": st.sampled_from(["debian:12", "ghcr.io/a/b@sha256:00"]),
    "env": ENV,
    "timeout": TIMES,
    "shell": LINES,
    "working_directory": st.sampled_from(["sub dir", "-x"]),
    "retry": st.fixed_dictionaries({"limit": st.integers(0, 10)}, optional={"backoff": TIMES}),
    "soft_fail": st.fixed_dictionaries({}, optional={"exit_codes": st.lists(st.integers(-1, 255), max_size=2)}),
    "secrets": st.lists(st.sampled_from(["TOKEN", "_x"]), max_size=2),
    "artifacts": st.lists(st.sampled_from(["dist/*", "a b"]), max_size=2),
    "cpu": st.integers(1, 4),
    "memory": SIZES,
    "disk": SIZES,
    "network": st.booleans(),
}
CONDITIONS: dict[str, st.SearchStrategy[Any]] = {
    "event": st.lists(st.sampled_from(["push", "tag", "manual"]), min_size=1, max_size=2),
    "paths": PATHS,
    "fork": st.booleans(),
}
OF_NAMES = st.sampled_from(["branch", "tag"]).flatmap(
    lambda key: st.fixed_dictionaries({key: NAMES}, optional={"paths": PATHS, "event": st.just(["manual"])})
)
CONDITION = st.fixed_dictionaries({}, optional=CONDITIONS).filter(bool) | OF_NAMES
WHEN = st.builds(
    dict.__or__,
    st.fixed_dictionaries({}, optional=CONDITIONS) | OF_NAMES,
    st.fixed_dictionaries({}, optional={"not": CONDITION, "status": st.just("always")}),
)
USED: dict[str, st.SearchStrategy[Any]] = {
    "use": st.sampled_from(["jobs/test.yml", "acme/ci//a/b-c/x.yaml@v1.0"]),
    "with": st.dictionaries(st.sampled_from(["target", "V_2"]), WORDS, max_size=2),
}
JOB = st.fixed_dictionaries(
    {"run": WORDS.filter(str.strip)},
    optional={
        **COMMON,
        "name": WORDS,
        "cache": st.fixed_dictionaries({}, optional={"key": WORDS}),
        "when": WHEN,
        "generates": st.sampled_from(["more.yml", "a b/1.json"]),
        "matrix": st.dictionaries(
            st.sampled_from(["v", "on"]), st.lists(st.sampled_from(["1", "0x1"]), min_size=1, unique=True), min_size=1
        ),
    },
)
INPUT = {"default": st.sampled_from(["1", "-2.5", "0644"]), "required": st.booleans(), "help": LINES.map(" ".join)}
KINDS = st.sampled_from([{}, {"text": True}, {"number": True}, {"choice": ["1", "-2.5", "0644"]}])
INPUTS = st.dictionaries(
    st.sampled_from(["target", "dry-run", "V_2"]),
    st.builds(dict.__or__, KINDS, st.fixed_dictionaries({}, optional=INPUT)) | st.just({"boolean": True}),
    max_size=3,
)
TRIGGERS = st.fixed_dictionaries(
    {},
    optional={
        "push": st.fixed_dictionaries({}, optional={"branches": NAMES, "paths": PATHS}),
        "pull_request": st.fixed_dictionaries({}, optional={"branches": NAMES}),
        "tag": NAMES,
        "manual": st.just(False) | st.fixed_dictionaries({}, optional={"inputs": INPUTS}),
    },
)


@st.composite
def documents(draw: st.DrawFn) -> dict[str, Any]:
    """Return a document in which jobs need earlier ones; some use jobs of other files."""
    jobs = draw(st.dictionaries(WORDS, JOB, min_size=1, max_size=4))
    for job in jobs.values():
        if "generates" in job:
            job.pop("cache", None)
        if draw(st.integers(0, 3)) == 0:
            job |= {key: draw(each) for key, each in USED.items()}
    keys = list(jobs)
    for place, key in enumerate(keys):
        if place and draw(st.booleans()):
            jobs[key]["needs"] = draw(st.lists(st.sampled_from(keys[:place]), min_size=1, max_size=2, unique=True))
    more = {
        "on": TRIGGERS,
        "env": ENV,
        "timeout": TIMES,
        "name": WORDS,
        "defaults": st.fixed_dictionaries({}, optional=COMMON),
    }
    return {**draw(st.fixed_dictionaries({}, optional=more)), "jobs": jobs}


def dumped(pipeline: Pipeline) -> dict[str, Any]:
    return pipeline.model_dump(mode="json", by_alias=True, exclude_unset=True)


@settings(max_examples=50, deadline=None)
@given(documents())
def test_a_pipeline_is_the_same_through_yaml_and_json(document: dict[str, Any]):
    pipeline = check(document)
    assert dumped(pipeline) == document
    assert check(read_yaml(yaml.safe_dump(document, allow_unicode=True, sort_keys=False)).value) == pipeline
    assert check(read_yaml(json.dumps(document)).value) == pipeline  # JSON is YAML, too
    text = json.dumps({"version": "1", **document})
    if any("use" in each for each in document["jobs"].values()):
        with pytest.raises(IrError, match="a document alone has no other files"):
            load(text, IrSettings(max_jobs=10_000))
    else:
        assert load(text, IrSettings(max_jobs=10_000)).jobs
