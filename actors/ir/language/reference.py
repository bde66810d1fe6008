"""The reference of the language and its JSON Schema, made from the model. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from actors.ir.language.model import JobFile, Pipeline

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

_TITLES = {
    "Pipeline": "The file",
    "Triggers": "`on`",
    "PushTrigger": "`on.push`",
    "PullRequestTrigger": "`on.pull_request`",
    "Manual": "`on.manual`",
    "Input": "`on.manual.inputs.NAME`",
    "ScheduleTrigger": "`on.schedule`",
    "PipelineTrigger": "`on.pipeline`",
    "Common": "`defaults`",
    "Concurrency": "`concurrency`",
    "Job": "`jobs.KEY`",
    "JobFile": "The file of a job",
    "Lock": "`jobs.KEY.concurrency`",
    "Gate": "`jobs.KEY.gate`",
    "Identity": "`jobs.KEY.identity`",
    "Matrix": "`jobs.KEY.matrix`",
    "When": "`jobs.KEY.when`",
    "Condition": "`jobs.KEY.when.not`",
    "Cache": "`jobs.KEY.cache`",
    "Service": "`jobs.KEY.services.NAME`",
    "Ready": "`jobs.KEY.services.NAME.ready`",
    "Preview": "`jobs.KEY.preview`",
    "Retry": "`jobs.KEY.retry`",
    "SoftFail": "`jobs.KEY.soft_fail`",
}
"""The tables of the reference, in their order."""

_AND_JOB = "It has the keys of [`jobs.KEY`](#jobskey), too, but no `use`."
_AND_COMMON = "It has the keys of [`defaults`](#defaults), too."
_TYPES = {"string": "text", "integer": "whole number", "boolean": "`true` or `false`", "number": "number"}


def json_schema() -> dict[str, Any]:
    """Return the JSON Schema of documents of version "1", for editors, too."""
    schema = Pipeline.model_json_schema(by_alias=True)
    _tidy(schema)
    job = schema["$defs"]["Job"]
    job["anyOf"] = [{"required": ["run"]}, {"required": ["use"]}]
    del job["properties"]["run"]["default"]
    schema["patternProperties"] = {"^x-": {}}
    head = {"$schema": "https://json-schema.org/draft/2020-12/schema", "title": 'A pipeline of ci-daemon, version "1"'}
    return {**head, **{name: value for name, value in schema.items() if name != "title"}}


def job_file_schema() -> dict[str, Any]:
    """Return the JSON Schema of the files that `use` names."""
    schema = JobFile.model_json_schema(by_alias=True)
    _tidy(schema)
    return schema


def language_reference() -> str:
    """Return the tables of all keys in Markdown."""
    schema = json_schema()
    kinds = {"Pipeline": schema, **schema["$defs"]}
    kinds["JobFile"] = job_file_schema()
    for name, base, more in (("JobFile", "Job", _AND_JOB), ("Job", "Common", _AND_COMMON)):
        inherited, kind = kinds[base]["properties"], kinds[name]
        own = {key: each for key, each in kind["properties"].items() if key not in inherited}
        kinds[name] = {**kind, "properties": own, "description": f"{kind['description']} {more}"}
    return "\n".join(line for name, title in _TITLES.items() for line in _table(title, kinds[name]))


def _table(title: str, kind: Mapping[str, Any]) -> Iterator[str]:
    yield f"### {title}\n"
    yield " ".join(kind["description"].split()) + "\n"
    yield "| Key | Value | Meaning |"
    yield "|---|---|---|"
    required = kind.get("required", ())
    for name, field in kind["properties"].items():
        needed = " **Required.**" if name in required else ""
        yield f"| `{name}` | {_in_words(field)} | {field.get('description', '')}{needed} |"
    yield ""


def _in_words(field: Mapping[str, Any]) -> str:
    """Return what may be written for a key."""
    if "const" in field:
        return f'`"{field["const"]}"`'
    if "enum" in field:
        return " or ".join(f"`{each}`" for each in field["enum"])
    if "anyOf" in field:
        return " or ".join(dict.fromkeys(_in_words(each) for each in field["anyOf"]))
    if "$ref" in field:
        title = _TITLES[field["$ref"].rpartition("/")[2]].strip("`")
        return f"[mapping](#{''.join(each for each in title.lower() if each.isalnum() or each in '_-')})"
    match field.get("type"):
        case "array":
            return f"list of {_in_words(field['items'])}"
        case "object":
            values = values_in(field)
            return f"mapping of {_in_words(values)}" if isinstance(values, dict) else "mapping"
        case list():
            return "text"
        case "null":
            return "nothing"
        case kind:
            return _TYPES[str(kind)]


def values_in(field: Mapping[str, Any]) -> object:
    """Return the schema of a mapping's values; none if they are any."""
    return next(iter(field.get("patternProperties", {}).values()), field.get("additionalProperties"))


def _tidy(value: Any) -> None:  # noqa: ANN401 - JSON
    """Leave out titles that repeat the key, and the null of keys that may be left out."""
    if isinstance(value, list):
        for each in value:
            _tidy(each)
    elif isinstance(value, dict):
        if "anyOf" in value:
            value["anyOf"] = [part for each in value["anyOf"] for part in each.get("anyOf", [each])]
        properties = value.get("properties")
        for field in properties.values() if isinstance(properties, dict) else ():
            _tidy_field(field)
        for each in value.values():
            _tidy(each)


def _tidy_field(field: dict[str, Any]) -> None:
    field.pop("title", None)
    if "default" in field and field["default"] is None:
        del field["default"]
        kept = [each for each in field.pop("anyOf", ()) if each != {"type": "null"}]
        if len(kept) == 1:
            field |= {**kept[0], **field}
        elif kept:
            field["anyOf"] = kept
