"""The keys of the language as typed dictionaries, for pipelines in Python; made from the model. Pure."""

from __future__ import annotations

import textwrap
from typing import TYPE_CHECKING, Any

from actors.ir.language.reference import json_schema, values_in

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

_NAMES = {
    "Pipeline": "PipelineKeys",
    "Triggers": "Triggers",
    "PushTrigger": "PushTrigger",
    "PullRequestTrigger": "PullRequestTrigger",
    "Manual": "Manual",
    "Input": "Input",
    "Ready": "Ready",
    "Service": "Service",
    "ScheduleTrigger": "ScheduleTrigger",
    "PipelineTrigger": "PipelineTrigger",
    "Common": "Defaults",
    "Concurrency": "Concurrency",
    "Lock": "Lock",
    "Gate": "Gate",
    "Identity": "Identity",
    "Job": "JobKeys",
    "Condition": "Condition",
    "When": "When",
    "Cache": "Cache",
    "Preview": "Preview",
    "Retry": "Retry",
    "SoftFail": "SoftFail",
}
"""The classes in their order, each after the one whose keys it has, too."""

_BASES = {"Job": "Common", "When": "Condition"}
_NOT_KEYWORDS = {"Pipeline": ("version", "slug", "jobs")}
"""Keys that a file in Python says otherwise."""

_RESERVED = ("for", "from", "not", "with")
_TYPES = {"string": "str", "integer": "int", "boolean": "bool", "number": "float"}
_MATRIX = "Mapping[str, str | Sequence[str | Mapping[str, str]]]"
_OF_JOBS = {"from": "str | Job", "needs": "str | Job | Sequence[str | Job]"}
_WIDTH = 120


def python_keys() -> str:
    """Return the classes as the text of a module's end."""
    schema = json_schema()
    kinds = {"Pipeline": schema, **schema["$defs"]}
    return "\n\n\n".join("\n".join(_class(name, kinds)) for name in _NAMES) + "\n"


def _class(name: str, kinds: Mapping[str, Any]) -> Iterator[str]:
    kind, base = kinds[name], _BASES.get(name)
    inherited = {} if base is None else kinds[base]["properties"]
    yield f"class {_NAMES[name]}({'TypedDict' if base is None else _NAMES[base]}, total=False):"
    yield from _docstring(" ".join(kind["description"].split()))
    yield ""
    for key, field in kind["properties"].items():
        if key in inherited or key in _NOT_KEYWORDS.get(name, ()):
            continue
        text = _OF_JOBS.get(key) or " | ".join(dict.fromkeys(_types(field)))
        yield f"    {python_key(key)}: {f'Required[{text}]' if key in kind.get('required', ()) else text}"
        yield from _docstring(field["description"])


def python_key(key: str) -> str:
    """Return a key as Python can spell it."""
    return f"{key}_" if key in _RESERVED else key


def _docstring(text: str) -> Iterator[str]:
    lines = textwrap.wrap(text.replace("\\", r"\\"), _WIDTH - 20, break_long_words=False)
    if len(lines) == 1:
        yield f'    """{lines[0]}"""'
        return
    first, rest = _first_sentence(text)
    yield f'    """{first}'
    yield ""
    yield from (f"    {line}" for line in textwrap.wrap(rest, _WIDTH - 4))
    yield '    """'


def _first_sentence(text: str) -> tuple[str, str]:
    first, _, rest = text.partition(". ")
    return f"{first}.", rest


def _types(field: Mapping[str, Any]) -> Iterator[str]:
    """Yield the types of what may be given for a key."""
    if "enum" in field:
        yield f"Literal[{', '.join(repr(each).replace(chr(39), chr(34)) for each in field['enum'])}]"
    elif "anyOf" in field:
        for each in field["anyOf"]:
            yield from _types(each)
    elif "$ref" in field:
        name = field["$ref"].rpartition("/")[2]
        yield _MATRIX if name == "Matrix" else _NAMES[name]
    elif field["type"] == "array":
        yield f"Sequence[{' | '.join(dict.fromkeys(_types(field['items'])))}]"
    elif field["type"] == "object":
        values = values_in(field)
        yield f"Mapping[str, {' | '.join(_types(values)) if isinstance(values, dict) else 'str'}]"
    elif isinstance(field["type"], list):
        yield "str"
    elif field["type"] != "null":
        yield _TYPES[field["type"]]
