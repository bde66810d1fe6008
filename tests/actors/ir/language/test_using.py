"""Jobs that take over those of other files."""

from __future__ import annotations

from textwrap import dedent
from typing import Any

import pytest

from actors.ir import FileInvalid, PipelineFile
from actors.ir.language.using import JobFileText
from tests.rendering import documents_of

TEST = """
inputs:
  python: {choice: ["3.12", "3.13"], default: "3.13"}
  cpu: {number: true, default: 2}
  options: {}
x-note: of nobody
image: python:${{ with.python }}
cpu: ${{with.cpu}}
env: {A: "1", B: "${{ with.options }}"}
run: pytest ${{ with.options }}
artifacts: [report.xml, "${{ with.python }}.xml"]
"""


def files(text: str = TEST) -> dict[str, JobFileText]:
    return {"jobs/test.yml": JobFileText(".hm/jobs/test.yml", dedent(text))}


def jobs(text: str, used: str = TEST) -> dict[str, Any]:
    """Return the jobs of a pipeline as its document has them."""
    pipeline = PipelineFile.parse(".hm/ci.yml", dedent(text), files(used))
    found: dict[str, Any] = pipeline.declared({}, 0)["definition"]["jobs"]
    return found


def mistakes(text: str, used: str = TEST) -> list[str]:
    with pytest.raises(FileInvalid) as caught:
        jobs(text, used)
    return [str(each).removeprefix(".hm/") for each in caught.value.mistakes]


def test_a_job_has_the_keys_of_the_file():
    assert jobs("jobs: {a: {use: jobs/test.yml, with: {python: 3.12, options: -q}, name: Tests}}") == {
        "a": {
            "image": "python:3.12",
            "cpu": 2,
            "env": {"A": "1", "B": "-q"},
            "run": "pytest -q",
            "artifacts": ["report.xml", "3.12.xml"],
            "name": "Tests",
        }
    }


def test_own_keys_win_over_those_of_the_file():
    found = jobs("""
        jobs:
          base: {image: python:3.11, run: x}
          a: {use: jobs/test.yml, from: base, env: {B: mine, C: "3"}, run: tox, cpu: 4, needs: [base]}
    """)["a"]
    assert found["env"] == {"A": "1", "B": "mine", "C": "3"}
    assert (found["run"], found["cpu"], found["from"]) == ("tox", 4, "base")
    assert "image" not in found


def test_each_cell_of_a_matrix_may_give_its_value():
    found = jobs("jobs: {a: {use: jobs/test.yml, matrix: {o: [x, y]}, with: {options: '-k ${{ matrix.o }}'}}}")["a"]
    assert found["run"] == "pytest -k ${{ matrix.o }}"


def test_a_job_in_python_takes_over_the_same():
    (document,) = documents_of("""
from ci_daemon.language import job, pipeline

@pipeline("ci")
def ci():
    job("a", use="jobs/test.yml", with_={"python": "3.12", "cpu": 1}, needs=job("b", run="x"))
""")
    in_python = PipelineFile.rendered(document, files()).declared({}, 0)["definition"]["jobs"]
    in_yaml = "jobs: {b: {run: x}, a: {use: jobs/test.yml, with: {python: 3.12, cpu: 1}, needs: b}}"
    assert in_python == jobs(in_yaml)


@pytest.mark.parametrize(
    ("keys", "mistake"),
    [
        ("use: jobs/test.yml, with: {pythn: '3.12'}", 'with.pythn: unknown input "pythn": did you mean "python"?'),
        ("use: jobs/test.yml, with: {python: 3.1}", 'with.python: there is no choice "3.1": did you mean "3.13"?'),
        ("use: jobs/test.yml, with: {cpu: many}", 'with.cpu: expected a number, got "many"'),
        ("use: jobs/test.yml, with: {options: [a]}", "with.options: expected text, got a list"),
        ("use: jobs/test.yml, with: {options: }", "with.options: expected text, and there is nothing"),
        (
            'use: jobs/test.yml, with: {options: "a\\nb"}',
            "with.options: expected no control characters and no line ends",
        ),
        ("use: jobs/test.yml, with: [a]", "with: expected a mapping, got a list"),
        ("use: ci.yml", "use: expected a file of a job in .hm, such as jobs/test.yml, or acme/ci//jobs/test.yml@v1"),
        ("use: ../jobs/test.yml", "use: expected a file of a job in .hm"),
        ("use: '${{ build.branch }}/a.yml'", "use: names in text are not replaced here"),
        ("use: acme/ci//jobs/a.yml", 'use: pin it to a tag or a whole commit, as in "acme/ci//jobs/a.yml@v1"'),
        ("use: jobs/test.yml@v1", 'use: a file of this repository has no "@"'),
        ("run: x, with: {a: b}", 'with: it has no effect without "use"'),
        ("run: x, uses: jobs/test.yml", 'uses: unknown key "uses": did you mean "use"?'),
    ],
)
def test_a_mistake_of_a_use_is_told(keys: str, mistake: str):
    (found,) = mistakes(f"jobs:\n  a: {{{keys}}}\n")
    assert found.startswith("ci.yml:2:")
    assert found.partition(" ")[2].startswith(f"jobs.a.{mistake}")


def test_mistakes_of_the_file_have_its_lines_and_are_told_once():
    ci = "jobs: {a: {use: jobs/test.yml}, b: {use: jobs/test.yml}, c: {rum: x}}\n"
    used = "use: jobs/b.yml\ninputs: {a: {choice: [x], default: y}, b: {chioce: [x]}}\nrun: x\nrun: y\n"
    assert mistakes(ci, used) == [
        'ci.yml:1:62: jobs.c.rum: unknown key "rum": did you mean "run"?',
        "jobs/test.yml:1:1: use: a job that others use cannot use another one",
        'jobs/test.yml:2:27: inputs.a.default: there is no choice "y": there is "x"',
        'jobs/test.yml:2:44: inputs.b.chioce: unknown key "chioce": did you mean "choice"?',
        'jobs/test.yml:4:1: the key "run" stands twice here',
    ]


def test_keys_of_the_file_are_checked_as_those_of_the_job():
    used = "imge: x\nretry: 99\nneeds: b\nenv: {A: '${{ with.b }}'}\n"
    assert mistakes("jobs: {a: {use: jobs/test.yml}}", "env: {A: x}") == ['ci.yml:1:8: jobs.a.run: it needs "run"']
    assert mistakes("jobs: {a: {use: jobs/test.yml, run: x}}\n", used) == [
        'jobs/test.yml:1:1: jobs.a.imge: unknown key "imge": did you mean "image"?',
        "jobs/test.yml:2:1: jobs.a.retry.limit: expected at most 10",
        'jobs/test.yml:3:1: jobs.a.needs[0]: unknown job "b"',
        'jobs/test.yml:4:7: unknown name "with.b": the file declares no "inputs"',
    ]


def test_the_file_of_a_job_is_a_mapping():
    assert mistakes("jobs: {a: {use: jobs/test.yml}}", "- run: x") == [
        "jobs/test.yml:1:1: expected a mapping with the keys of a job"
    ]


def test_a_required_input_must_be_given():
    used = "inputs: {target: {required: true}}\nrun: deploy ${{ with.target }}\n"
    assert mistakes("jobs: {a: {use: jobs/test.yml}}", used) == [
        'ci.yml:1:12: jobs.a.use: the job needs the input "target"'
    ]
    assert jobs("jobs: {a: {use: jobs/test.yml, with: {target: x}}}", used)["a"]["run"] == "deploy x"


@pytest.mark.parametrize("name", ["build.branch", "inputs.x"])
def test_no_value_of_a_stranger_becomes_a_command_by_with(name: str):
    ci = f"""
        on: {{manual: {{inputs: {{x: {{}}}}}}}}
        jobs: {{a: {{use: jobs/test.yml, with: {{options: "${{{{ {name} }}}}"}}}}}}
    """
    (found,) = mistakes(ci)
    assert found.startswith("jobs/test.yml:10:1: jobs.a.run: ")
    assert "is what a stranger may choose, and must not become a command" in found


def test_a_value_is_not_read_for_names_of_inputs_again():
    (found,) = mistakes(
        "jobs: {a: {use: jobs/test.yml, with: {options: '${{ with.python }}'}}}",
        "inputs: {options: {}}\nrun: ${{ with.options }}\n",
    )
    assert 'unknown name "with.python"' in found


def test_used_jobs_are_bounded():
    big = f"run: |\n  {'x' * 200_000}\n"
    several = "\n".join(f"  j{place}: {{use: jobs/test.yml}}" for place in range(5_000))
    found = mistakes(f"jobs:\n{several}\n", big)
    assert "ci.yml:7:8: jobs.j5.use: the used jobs come to more than 1024 KiB, or 100000 values" in found
    assert len(found) <= 201
