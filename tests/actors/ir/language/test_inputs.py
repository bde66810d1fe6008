"""Inputs: what a pipeline declares of them, what fits, and where their values get to."""

from __future__ import annotations

import json

import pytest

from actors.ir import Built, IrError, IrSettings, load
from storage import BuildErrorCode, NewJob
from tests.actors.ir.language.files import mistakes, plan

HOSTILE = "$(touch x); \"`reboot`\" '&& reboot' ${{ inputs.target }}"
ON = """{manual: {inputs: {
  target: {choice: [staging, production], default: staging, help: Where to},
  dry-run: {boolean: true}, count: {number: true}, note: {text: true}, Title: {required: true}}}}"""


def jobs(keys: str, inputs: dict[str, str] | None = None, event: str = "manual") -> tuple[NewJob, ...]:
    built = Built(event, inputs={"Title": "t"} | (inputs or {}))
    return plan(f"{{on: {ON}, jobs: {{a: {{run: x, {keys}}}}}}}", built=built).jobs


def refused(inputs: dict[str, str], event: str = "manual") -> str:
    with pytest.raises(IrError) as caught:
        plan(f"{{on: {ON}, jobs: {{a: {{run: x}}}}}}", built=Built(event, inputs=inputs))
    assert caught.value.code is BuildErrorCode.INPUTS_INVALID
    return caught.value.message


def test_every_job_has_all_inputs_as_variables():
    (found,) = jobs("env: {A: b}", {"count": "-2.5", "dry-run": "true", "note": HOSTILE})
    assert found.env == {
        "A": "b",
        "INPUT_TARGET": "staging",
        "INPUT_DRY_RUN": "true",
        "INPUT_COUNT": "-2.5",
        "INPUT_NOTE": HOSTILE,
        "INPUT_TITLE": "t",
    }


def test_a_build_that_nobody_asked_for_has_the_defaults():
    (found,) = plan(f"{{on: {ON}, jobs: {{a: {{run: x}}}}}}", built=Built("push")).jobs
    assert [found.env[f"INPUT_{name}"] for name in ("TARGET", "DRY_RUN", "COUNT", "TITLE")] == [
        "staging",
        "false",
        "",
        "",
    ]


def test_what_does_not_fit_is_told_at_once():
    given = {"target": "prod", "dry-run": "yes", "count": "1e3", "note": "a\nb", "titel": "x"}
    assert refused(given).split("; ") == [
        'inputs.target: there is no choice "prod": there is "production", "staging"',
        'inputs.dry-run: expected true or false, got "yes"',
        'inputs.count: expected a number, got "1e3"',
        "inputs.note: expected no control characters and no line ends",
        'inputs: unknown input "titel": did you mean "Title"?',
        "and 1 more",
    ]


def test_an_input_that_is_needed_is_asked_for():
    assert refused({}) == "inputs.Title: the build needs it: give a value"


@pytest.mark.parametrize("name", ["a" * 1_000_000, "note"])
def test_inputs_are_bounded_in_number_and_length(name: str):
    assert len(refused({name: "x" * 1_000_000, "Title": "t"})) < 1000
    assert (
        refused({f"{name[:9]}{place}": "x" for place in range(10_000)})
        == "inputs: expected at most 50 inputs, got 10000"
    )


def test_a_pipeline_without_inputs_takes_none():
    for text in ('{"version": "0", "steps": [{"type": "command", "key": "a", "cmd": "x"}]}',
                 '{"version": "1", "jobs": {"a": {"run": "x"}}}'):  # fmt: skip
        with pytest.raises(IrError, match=r'unknown input "a": the pipeline declares none'):
            load(text, IrSettings(), Built(inputs={"a": "b"}))


def test_a_name_of_an_input_is_replaced_in_data():
    keys = "name: 'Of ${{ inputs.note }}', env: {A: 'to-${{inputs.target}}'}, artifacts: 'x/${{ inputs.note }}'"
    (found,) = jobs(keys, {"note": HOSTILE})
    assert (found.command, found.name, found.env["A"]) == ("x", f"Of {HOSTILE}", "to-staging")
    assert found.artifacts == (f"x/{HOSTILE}",)


def test_a_folder_of_an_input_is_one_word_of_the_command():
    (found,) = jobs("working_directory: '${{ inputs.note }}'", {"note": '$(touch x); "'})
    assert found.command == "cd '$(touch x); \"'\nx"


def test_an_image_of_an_input_has_to_be_one():
    with pytest.raises(IrError, match=r"jobs.a.image: expected the name of an image"):
        jobs("image: '${{ inputs.note }}'", {"note": HOSTILE})


@pytest.mark.parametrize("key", ["run: 'echo ${{ inputs.dry-run }}'", "run: x, shell: [sh, '${{ inputs.dry-run }}']"])
def test_a_command_has_an_input_as_its_variable_alone(key: str):
    (found,) = mistakes(f"{{on: {ON}, jobs: {{a: {{{key}}}}}}}")
    assert found.endswith(
        '"inputs.dry-run" is what a stranger may choose, and must not become a command: write "$INPUT_DRY_RUN"'
    )


@pytest.mark.parametrize(
    ("when", "given", "skipped"),
    [
        ("{target: staging}", {}, None),
        ("{target: staging}", {"target": "production"}, 'the input target is "production", and it runs for "staging"'),
        ("{target: [staging, production]}", {"target": "production"}, None),
        ("{dry-run: true}", {}, 'the input dry-run is "false", and it runs for "true"'),
        ("{count: [1, 2]}", {"count": "2"}, None),
    ],
)
def test_a_condition_is_of_the_inputs(when: str, given: dict[str, str], skipped: str | None):
    (found,) = jobs(f"when: {{inputs: {when}}}", given)
    assert found.skipped == skipped


@pytest.mark.parametrize(
    ("declaration", "mistake"),
    [
        ("a: {choice: [x], boolean: true}", 'inputs.a: expected one kind of input, got "choice" and "boolean"'),
        ("a: {choice: [x, y], default: z}", 'inputs.a.default: there is no choice "z": there is "x", "y"'),
        ("a: {boolean: true, default: maybe}", 'inputs.a.default: expected true or false, got "maybe"'),
        ("a: {number: true, default: x}", 'inputs.a.default: expected a number, got "x"'),
        ("a: {boolean: false}", "inputs.a.boolean: it says what kind of input this is: expected true, got \"false\""),
        ("a: {choise: [x]}", 'inputs.a.choise: unknown key "choise": did you mean "choice"?'),
        ("a-b: {}, A_b: {}", 'inputs.A_b: its variable INPUT_A_B is that of "a-b": rename one'),
        ("'a b': {}", "expected the name of an input, of at most 63 letters, digits, \"_\" and \"-\", got \"a b\""),
        ("a: {choice: []}", "inputs.a.choice: expected at least one"),
    ],
)  # fmt: skip
def test_a_mistake_of_a_declaration_is_told(declaration: str, mistake: str):
    (found,) = mistakes(f"{{on: {{manual: {{inputs: {{{declaration}}}}}}}, jobs: {{a: {{run: x}}}}}}")
    assert found.endswith(mistake)


@pytest.mark.parametrize(
    ("keys", "mistake"),
    [
        ("when: {inputs: {targt: staging}}", 'unknown input "targt": did you mean "target"?'),
        ("when: {not: {inputs: {target: prod}}}", 'there is no choice "prod": there is "production", "staging"'),
        ("env: {INPUT_TARGET: x}", 'it has no effect: the variable is that of the input "target"'),
        ("env: {A: '${{ inputs.targt }}'}", 'unknown name "inputs.targt": did you mean "inputs.target"?'),
    ],
)
def test_a_mistake_about_an_input_is_told(keys: str, mistake: str):
    (found,) = mistakes(f"{{on: {ON}, jobs: {{a: {{run: x, {keys}}}}}}}")
    assert found.endswith(mistake)


def test_a_document_in_json_has_values_of_its_own_types():
    inputs = {"a": {"boolean": True, "default": True}, "b": {"number": True, "default": 2.5}, "c": {}}
    document = {"version": "1", "on": {"manual": {"inputs": inputs}}, "jobs": {"a": {"run": "x"}}}
    (found,) = load(json.dumps(document), IrSettings(), Built()).jobs
    assert found.env == {"INPUT_A": "true", "INPUT_B": "2.5", "INPUT_C": ""}


def test_numbers_of_builds_get_into_commands():
    (found,) = plan("jobs: {a: {run: 'echo ${{ build.number }}'}}", built=Built(number="12")).jobs
    assert found.command == "echo 12"
