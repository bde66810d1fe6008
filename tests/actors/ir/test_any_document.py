"""Any text becomes a plan or a listed error, and both shapes of a pipeline yield the same plan."""

from __future__ import annotations

import copy
import dataclasses
import json
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from actors.ir import IrError, Plan, load
from storage import BuildErrorCode, EdgeKind
from tests.actors.ir.documents import LIMITS, command, flat, graph, node, planned, wait
from tests.actors.ir.test_examples import EXAMPLES

NAMES = sorted(
    {
        *(
            "version",
            "graph",
            "steps",
            "nodes",
            "edges",
            "step",
            "type",
            "key",
            "cmd",
            "env",
            "label",
            "image",
            "cache",
        ),
        *("default_image", "timeout_seconds", "builds_in", "continue_on_failure", "policy", "runner_args", "retry"),
        *(
            "limit",
            "exit_codes",
            "soft_fail",
            "artifacts",
            "paths",
            "secrets",
            "network",
            "cpu",
            "backoff_seconds",
            "A",
        ),
    }
)
WORDS = [
    "0",
    "a",
    "b",
    "command",
    "wait",
    "builds_in",
    "depends_on",
    "none",
    "ttl",
    "on",
    "off",
    "../x",
    "/x",
    "\0",
    "\x7f",
]
scalars = (
    st.none()
    | st.booleans()
    | st.integers(-2, 4)
    | st.integers()
    | st.floats()
    | st.sampled_from(WORDS)
    | st.text(st.characters(), max_size=5)
)
values = st.recursive(
    scalars,
    lambda inner: (
        st.lists(inner, max_size=4) | st.dictionaries(st.sampled_from(NAMES) | st.text(max_size=3), inner, max_size=5)
    ),
    max_leaves=15,
)


@st.composite
def pipelines(draw: st.DrawFn) -> tuple[dict[str, Any], dict[str, Any]]:
    """Draw a pipeline, as one document of each shape."""
    count = draw(st.integers(1, 7))
    document_env = draw(st.dictionaries(st.sampled_from("ABC"), st.text("xyü", max_size=2), max_size=2))
    members = draw(
        st.fixed_dictionaries({}, optional={"default_image": st.just("debian:12"), "timeout_seconds": st.just(9)})
    )
    steps: list[Any] = []
    nodes: list[Any] = []
    edges: list[Any] = []
    waits: list[tuple[int, bool]] = []
    for index in range(count):
        for continues in draw(st.lists(st.booleans(), max_size=2)):
            waits.append((index, continues))
            steps.append(wait(continue_on_failure=continues))
        step = draw(
            st.fixed_dictionaries(
                {"cmd": st.sampled_from(["make", "a\nb"])},
                optional={
                    "label": st.sampled_from(["", "Label"]),
                    "image": st.sampled_from(["a:1", "b"]),
                    "timeout_seconds": st.integers(1, 5),
                    "cache": st.sampled_from([{"policy": "ttl", "key": "k"}, {"policy": "none"}]),
                    "runner_args": st.sampled_from([{"cpu": 1, "soft_fail": True}, {"retry": {"limit": 1}, "x": 1}]),
                },
            )
        )
        env = draw(st.none() | st.dictionaries(st.sampled_from("ABD"), st.just("own"), max_size=2))
        parent = draw(st.none() | st.integers(0, count - 1))
        steps.append(command(str(index), **step, env=env, builds_in=None if parent is None else str(parent)))
        nodes.append(node(str(index), **step, env={**document_env, **(env or {})}))
        if parent is not None:
            edges.append([parent, index, "builds_in"])
        edges.extend(
            [earlier, index, "depends_on", {"continue_on_failure": continues}]
            for place, continues in waits
            for earlier in range(place)
        )
    return flat(*steps, env=document_env, **members), graph(*nodes, edges=draw(st.permutations(edges)), **members)


def places(value: object, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """Return the path of every value below the root of a document."""
    inner: Any = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    return [found for step, item in inner for found in [(*path, step), *places(item, (*path, step))]]


@st.composite
def mutants(draw: st.DrawFn) -> Any:
    """Draw a valid document with a few values removed, replaced, doubled or added."""
    originals = st.one_of(pipelines().flatmap(st.sampled_from), st.sampled_from([*EXAMPLES.values()]))
    document = copy.deepcopy(draw(originals))
    for _ in range(draw(st.integers(1, 3))):
        found = places(document)
        if not found:
            break
        path = draw(st.sampled_from(found))
        holder = document
        for step in path[:-1]:
            holder = holder[step]
        match draw(st.sampled_from(["replace", "remove", "add"])):
            case "replace":
                holder[path[-1]] = draw(values)
            case "remove":
                del holder[path[-1]]
            case "add" if isinstance(holder, dict):
                holder[draw(st.sampled_from(NAMES))] = draw(values)
            case _:
                holder.insert(path[-1], draw(values | st.just(holder[path[-1]])))
    return document


def outcome(text: str) -> Plan | IrError:
    """Return the plan or the error, after checking its invariants."""
    try:
        plan = load(text, LIMITS)
    except IrError as error:
        return checked(error)
    assert plan.jobs
    assert len({job.step_key for job in plan.jobs}) == len(plan.jobs)
    for position, job in enumerate(plan.jobs):
        assert all(0 <= dependency.position < position for dependency in job.depends_on)
        assert sum(dependency.kind is EdgeKind.BUILDS_IN for dependency in job.depends_on) <= 1
        assert "\0" not in "".join([job.command, *job.env, *job.env.values()])
        json.dumps(dataclasses.asdict(job), ensure_ascii=False).encode()
    return plan


def checked(error: IrError) -> IrError:
    assert error.code in set(BuildErrorCode) - {BuildErrorCode.RENDER_FAILED, BuildErrorCode.INTERNAL_ERROR}
    assert 0 < len(error.message) < 3000
    assert error.message.isprintable()
    error.message.encode()
    return error


@given(st.text() | values.map(json.dumps))
def test_any_text_gives_a_plan_or_an_error(text: str):
    outcome(text)


@given(st.fixed_dictionaries({"version": st.just("0")}, optional={"graph": values, "steps": values, "env": values}))
def test_any_document_of_this_version_gives_a_plan_or_an_error(document: dict[str, object]):
    outcome(json.dumps(document))


@given(mutants(), st.booleans())
def test_any_damaged_pipeline_gives_a_plan_or_an_error(document: object, ascii_only: bool):
    outcome(json.dumps(document, ensure_ascii=ascii_only))


@given(mutants(), st.data())
def test_any_damaged_text_gives_a_plan_or_an_error(document: object, data: st.DataObject):
    text = json.dumps(document)
    start = data.draw(st.integers(0, len(text)))
    end = data.draw(st.integers(start, min(start + 20, len(text))))
    junk = st.sampled_from(["NaN", "-Infinity", "[" * 2000, "9" * 5000, "\\ud800", "\ud800", '"', ""]) | st.text(
        max_size=5
    )
    outcome(text[:start] + data.draw(junk) + text[end:])


@given(pipelines())
def test_the_flat_and_the_graph_form_of_a_pipeline_plan_alike(drawn: tuple[dict[str, Any], dict[str, Any]]):
    of_flat, of_graph = (outcome(json.dumps(document)) for document in drawn)
    if isinstance(of_flat, IrError):
        assert isinstance(of_graph, IrError)
        assert (of_flat.code, of_flat.message) == (of_graph.code, of_graph.message)
    else:
        assert of_flat == of_graph


@given(pipelines().flatmap(st.sampled_from), st.randoms())
def test_the_order_of_members_means_nothing_in_a_valid_pipeline(document: dict[str, Any], randomness: Any):
    def shuffled(value: object) -> object:
        if isinstance(value, dict):
            return {name: shuffled(value[name]) for name in randomness.sample(sorted(value), len(value))}
        return [shuffled(item) for item in value] if isinstance(value, list) else value

    before, after = outcome(json.dumps(document)), outcome(json.dumps(shuffled(document)))
    assert isinstance(before, IrError) or before == after == planned(document)
