"""Outputs of GitHub's steps and jobs, as shells have them that run what they become."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest

from actors.ir.systems import Omissions, convert_github
from actors.ir.systems.located import read
from ci_daemon.convert.conversion import written
from storage import NewJob
from tests.rendering import planned_yaml

SHELLS = (["bash", "-eo", "pipefail", "-c"], ["dash", "-e", "-c"])
TAKER = """{needs: a, runs-on: docker, container: i, steps: [
    {run: 'printf "%s\\n" "$V"', env: {V: '${{ needs.a.outputs.v }}'}}]}"""
JSON = "'${{ fromJSON(needs.a.outputs.v) }}'"
GIVES = "v: '${{ steps.s.outputs.v }}'"


class Converted:
    """A workflow whose jobs have an image and these members."""

    def __init__(self, **jobs: str) -> None:
        lines = [f"  {name}: {members}\n" for name, members in jobs.items()]
        omissions = Omissions("f")
        pipelines = convert_github(read(f"on: push\njobs:\n{''.join(lines)}"), "ci", omissions)
        plans = planned_yaml({f"{each.slug}.yml": written(each, "") for each in pipelines}).values()
        self.jobs: dict[str, NewJob] = {job.step_key: job for plan in plans for job in plan.jobs}
        self.told = {each.key.removeprefix("jobs."): each.why for each in omissions.all}


def job(steps: str, members: str = "") -> str:
    return f"{{runs-on: docker, container: i, {members} steps: [{steps}]}}"


def run(command: str, place: Path, shell: list[str], env: dict[str, str]) -> tuple[int, str, str]:
    """Return the end of a command, what it printed, and its outputs here."""
    outputs = place / "output"
    outputs.write_text("")
    given = {"PATH": "/usr/bin:/bin", "CI_OUTPUT": str(outputs), "TMPDIR": str(place), **env}
    done = subprocess.run([*shell, command], cwd=place, env=given, capture_output=True, text=True, check=False)
    return done.returncode, done.stdout + done.stderr.partition("\n")[0], outputs.read_text()


def given(script: str, **job_members: str) -> str:
    members = "".join(f"{name}: {value}, " for name, value in job_members.items())
    return job(f"{{id: s, run: {json.dumps(script)}}}", f"outputs: {{{GIVES}}}, {members}")


@pytest.mark.parametrize("shell", SHELLS, ids=lambda shell: shell[0])
@pytest.mark.parametrize(
    ("script", "end", "output"),
    [
        ("echo v=1.2 >> $GITHUB_OUTPUT", 0, "1.2"),
        ("echo v=1 >> $GITHUB_OUTPUT; echo v=a=b >> $GITHUB_OUTPUT", 0, "a=b"),
        ('printf "%s\\n" "v<<E" "a = b" E "w=2" >> $GITHUB_OUTPUT', 0, "a = b"),
        ('printf "%s" "v= a  $(echo b) \\\\n" >> $GITHUB_OUTPUT', 0, " a  b \\n"),
        ("echo v=early >> $GITHUB_OUTPUT; exit 7", 7, "early"),
        ("echo w=1 >> $GITHUB_OUTPUT # v", 0, None),
        ("echo v= >> $GITHUB_OUTPUT", 0, None),
        ("echo v >> $GITHUB_OUTPUT", 1, None),
        ('printf "%s\\n" "v<<E" a >> $GITHUB_OUTPUT', 1, None),
        ('printf "%s\\n" "v<<E" a b E >> $GITHUB_OUTPUT', 1, None),
    ],
)
def test_a_job_gives_what_its_step_wrote(
    script: str, end: int, output: str | None, shell: list[str], tmp_path: Path
):  # fmt: skip
    found = Converted(a=given(script), b=TAKER)
    code, _, outputs = run(found.jobs["a"].command, tmp_path, shell, {})
    assert (code, outputs) == (end, "" if output is None else f"OUTPUT_A_V={output}\n")
    assert found.told == {}
    variables = dict(line.split("=", 1) for line in outputs.splitlines())
    assert run(found.jobs["b"].command, tmp_path, shell, variables)[:2] == (0, f"{output or ''}\n")


@pytest.mark.parametrize("shell", SHELLS, ids=lambda shell: shell[0])
def test_a_later_step_has_what_an_earlier_one_wrote(shell: list[str], tmp_path: Path):
    hostile = "$(touch stolen)\"; touch stolen; '`touch stolen`"
    steps = (
        '{id: First-One, run: \'printf "v=%s\\n" "$HOSTILE" >> $GITHUB_OUTPUT\', working-directory: sub}',
        "{id: two, run: 'echo v=2 >> $GITHUB_OUTPUT; false', continue-on-error: true}",
        "{run: 'echo \"$A\"', env: {A: 'x ${{ steps.first-one.outputs.v }} ${{ steps.two.outputs.v }}'}}",
        "{run: 'echo \"${{ steps.first-one.outputs.v }}\" ${{ steps.two.outputs.v }}'}",
    )
    (tmp_path / "sub").mkdir()
    found = Converted(a=job(", ".join(steps)))
    code, printed, outputs = run(found.jobs["a"].command, tmp_path, shell, {"HOSTILE": hostile})
    assert (code, printed, outputs) == (0, f"x {hostile} 2\n{hostile} 2\n", "")
    assert list(found.told) == ["a.steps[3].run"]
    assert not list(tmp_path.rglob("stolen"))


def test_a_job_needs_itself_what_it_has_outputs_of():
    middle = job("{run: x}", "needs: a,")
    last = job("{run: 'echo ${{ needs.a.outputs.V }}'}", "needs: [a, m],")
    found = Converted(a=given("echo v=1 >> $GITHUB_OUTPUT"), m=middle, z=last)
    assert [edge.position for edge in found.jobs["z"].depends_on] == [0, 1]
    assert "'echo ${OUTPUT_A_V-}'" in found.jobs["z"].command


@pytest.mark.parametrize(
    ("jobs", "key", "why"),
    [
        ({"a": given("echo v=1"), "b": job("{run: x, env: {V: '${{ needs.a.outputs.v }}'}}")},
         "b.steps[0].env.V", "no job that it needs gives"),
        ({"a": job("{run: x}"), "b": TAKER}, "b.steps[0].env.V", "no job that it needs gives"),
        ({"a": job("{id: s, uses: actions/cache@v4, with: {path: p}}, {run: x}", f"outputs: {{{GIVES}}},"), "b": TAKER},
         "a.outputs", "no command before it, with this id"),
        ({"a": given("echo ::set-output name=v::1"), "b": TAKER}, "a.outputs", 'has to write "v=…" to $GITHUB_OUTPUT'),
        ({"a": given("echo V=1 >> $GITHUB_OUTPUT"), "b": TAKER}, "a.outputs", "as it is named here"),
        ({"a": given("echo v=1"), "b": job("{run: \"echo '${{ needs.a.outputs.v }}'\"}", "needs: a,")},
         "b.steps[0]", "the shell may put no value"),
        ({"a": given("echo v=1"), "b": job("{run: 'echo \\${{ needs.a.outputs.v }}'}", "needs: a,")},
         "b.steps[0]", "the shell may put no value"),
        ({"a": given("echo v=1"), "b": job("{run: x}", "needs: a, if: needs.a.outputs.v == 'x',")},
         "b.if", "needs.a.outputs.v is not known here"),
        ({"a": job("{run: x, env: {V: '${{ steps.s.outputs.v }}'}}, {id: s, run: 'echo v=1 >> $GITHUB_OUTPUT'}")},
         "a.steps[0].env.V", "no command before it"),
        ({"a": given("echo v=1"), "b": job("{run: x}", f"needs: a, strategy: {{matrix: {JSON}}},")},
         "b.strategy.matrix", "a job that `generates` others"),
    ],
)  # fmt: skip
def test_an_output_that_is_not_certain_leaves_the_job_out(jobs: dict[str, str], key: str, why: str):
    found = Converted(**jobs)
    assert f"the whole job is left out: {why}" in found.told[key] or why in found.told[key]
    assert key[0] not in found.jobs


def test_cells_tell_which_of_their_outputs_counts():
    found = Converted(a=given("echo v=1 >> $GITHUB_OUTPUT", strategy="{matrix: {x: [1, 2]}}"), b=TAKER)
    assert list(found.told) == ["a.outputs"]
    assert len(found.jobs["b"].depends_on) == 2
