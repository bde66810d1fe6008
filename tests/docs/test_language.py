"""The pipelines in `docs/language.md` and the guides, its reference, and the JSON Schema beside it."""

from __future__ import annotations

import json
import re
from pathlib import Path

import jsonschema
import pytest
import yaml

from actors.ir import Built, IrSettings, PipelineFile, load
from actors.ir.language.using import JobFileText
from ci_daemon.manual.language import schema_text, with_keys, with_language
from storage import NewJob
from tests.rendering import documents_of, planned

PAGE = Path(__file__).parents[2] / "docs" / "language.md"
MODULE = PAGE.parents[1] / "actors" / "render" / "guest" / "language.py"
SCHEMA = PAGE.with_name("pipeline.schema.json")
EXAMPLES = sorted((PAGE.parents[1] / "examples").glob("*/ci.yml"))
IN_PYTHON = re.findall(r"^```python\n(.*?)^```", PAGE.read_text(), re.DOTALL | re.MULTILINE)
IN_YAML = re.findall(r"^```yaml\n(?:# \.hm/(\S+)\n)?(.*?)^```", PAGE.read_text(), re.DOTALL | re.MULTILINE)
GUIDES = [(PAGE.parent / f"{name}.md").read_text() for name in ("tutorial", "recipes", "connect")]
IN_GUIDES = [text for page in GUIDES for text in re.findall(r"^```yaml\n(.*?)^```", page, re.DOTALL | re.MULTILINE)]
PIPELINES = [*(text for name, text in IN_YAML if not name), *IN_GUIDES]
USED = {name: JobFileText(f".hm/{name}", text) for name, text in IN_YAML if name}


def valid(document: object) -> bool:
    return jsonschema.Draft202012Validator(json.loads(SCHEMA.read_text())).is_valid(document)


@pytest.mark.parametrize("text", PIPELINES)
def test_a_pipeline_of_the_page_plans(text: str):
    declared = PipelineFile.parse(".hm/ci.yml", text, USED).declared({"requirements.txt": ""}, 0)
    assert load(json.dumps(declared["definition"]), IrSettings()).jobs
    assert valid(yaml.safe_load(f"\n{text}".replace("\non:", '\n"on":')))  # as an editor reads it
    assert valid(declared["definition"])


def test_the_pipelines_in_python_on_the_page_plan():
    assert IN_PYTHON
    for text in IN_PYTHON:
        for document in documents_of(text, Built(branch="main")):
            declared = PipelineFile.rendered(document).declared({"requirements.txt": ""}, 0)
            assert load(json.dumps(declared["definition"]), IrSettings()).jobs
            assert valid(declared["definition"])


def test_the_example_in_python_is_that_in_yaml():
    project = PAGE.parents[1] / "examples" / "hello"
    (document,) = documents_of((project / "ci.py").read_text())
    in_yaml = PipelineFile.parse(".hm/ci.yml", (project / "ci.yml").read_text())
    assert PipelineFile.rendered(document).declared({}, 0)["slug"] == in_yaml.slug
    assert PipelineFile.rendered(document).pipeline.jobs == in_yaml.pipeline.jobs


def test_the_recipe_for_images_is_the_example():
    assert (PAGE.parents[1] / "examples" / "image" / ".hm" / "ci.yml").read_text() in IN_GUIDES


@pytest.mark.parametrize("name", ["django", "image", "release", "site"])
def test_an_example_in_python_is_that_in_yaml(name: str):
    project = PAGE.parents[1] / "examples" / name
    (document,) = documents_of((project / "ci.py").read_text())
    in_python = PipelineFile.rendered(document)
    in_yaml = PipelineFile.parse(".hm/ci.yml", (project / ".hm" / "ci.yml").read_text())
    assert (in_python.slug, in_python.pipeline.jobs) == (in_yaml.slug, in_yaml.pipeline.jobs)
    assert in_python.pipeline.on == in_yaml.pipeline.on


def test_the_schema_refuses_what_the_language_does():
    assert not valid({"jobs": {"a": {"run": "x", "imge": "debian"}}})
    assert not valid({"jobs": {"a": {}}})
    assert valid({"jobs": {"a": {"use": "jobs/test.yml", "with": {"python": 3.12}}}})
    assert not valid({"jobs": {"a": {"with": {}}}})
    assert not valid({"jobs": {"a": {"run": "x", "needs": 3.5, "cpu": "2"}}})
    assert valid({"x-mine": 3, "jobs": {"a": {"run": "x", "cache": False, "retry": 2, "env": {"A": 1}}}})


def test_the_reference_and_the_schema_are_current():
    page = PAGE.read_text()
    assert page == with_language(page), "run `make docs`"
    assert SCHEMA.read_text() == schema_text(), "run `make docs`"
    assert MODULE.read_text() == with_keys(MODULE.read_text()), "run `make docs`"


def test_the_example_with_services_plans() -> None:
    """Its tests start from the disk that has the database."""
    project = PAGE.parents[1] / "examples" / "services"
    declared = PipelineFile.parse(".hm/ci.yml", (project / ".hm" / "ci.yml").read_text())
    files = {each.relative_to(project).as_posix(): "" for each in project.rglob("*.sql")}
    jobs = load(json.dumps(declared.declared(files, 0)["definition"]), IrSettings()).jobs
    assert [(job.step_key, list(job.services)) for job in jobs] == [
        ("migrated", ["db"]),
        ("test-1", ["db"]),
        ("test-1000", ["db"]),
    ]


@pytest.mark.parametrize("file", EXAMPLES, ids=lambda file: file.parent.name)
def test_an_example_plans_to_the_same_in_both_languages(file: Path):
    """Apart from the name that the DSL gives its first step, and variables that are set anyway."""
    project = file.parent
    (in_python,) = planned(project / ".hm" / "pipeline.py", project).values()
    files = {each.relative_to(project).as_posix(): "" for each in project.rglob("*") if each.is_file()}
    declared = PipelineFile.parse(".hm/ci.yml", file.read_text()).declared(files, 0)
    in_yaml = load(json.dumps(declared["definition"]), IrSettings())
    assert declared["slug"] == project.name
    assert in_yaml.timeout_seconds == in_python.timeout_seconds
    assert list(map(essence, in_yaml.jobs)) == list(map(essence, in_python.jobs))
    assert valid(declared["definition"])


def essence(job: NewJob) -> tuple[object, ...]:
    """Return what both languages say alike of a job."""
    name = "" if job.depends_on == () else job.name
    env = {name: text for name, text in job.env.items() if name not in {"TERM", "DEBIAN_FRONTEND"}}
    cached = job.cache_key is not None
    return name, job.command, job.image, env, job.depends_on, job.shape, job.artifacts, cached
