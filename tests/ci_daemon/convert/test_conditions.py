"""Conditions of other systems: a job runs in the same builds here, or is left out."""

from __future__ import annotations

import pytest

from actors.ir import Built
from actors.ir.systems import Omissions, convert_github, convert_gitlab
from actors.ir.systems.located import read
from ci_daemon.convert.conversion import written
from tests.rendering import planned_yaml

HOST = "https://host/o/r.git"
BUILDS = {
    "main": Built(event="push", branch="main", repository=HOST),
    "dev": Built(event="push", branch="dev", repository=HOST),
    "tag": Built(event="tag", branch="v1", tag="v1", repository=HOST),
    "pull": Built(event="pull_request", branch="main", target_branch="main", pull_request="1", repository=HOST),
    "fork": Built(
        event="pull_request", branch="x:dev", target_branch="dev", pull_request="2", repository=HOST, fork=True
    ),
    "nightly": Built(event="schedule", branch="main", repository=HOST),
    "asked": Built(event="manual", branch="dev", repository=HOST),
}
ALL = " ".join(BUILDS)
HEAD = "github.event.pull_request.head.repo"


def runs(text: str, name: str) -> str:
    """Return the builds in which a job of a file runs, by their names."""
    document, omissions = read(text), Omissions("f")
    if "jobs:" in text:
        (pipeline,) = convert_github(document, "ci", omissions)
    else:
        (pipeline,) = convert_gitlab(document, omissions)
    texts = {"ci.yml": written(pipeline, "")}
    found = []
    for build, built in BUILDS.items():
        (plan,) = planned_yaml(texts, built).values()
        if [job.name for job in plan.jobs if job.name == name and job.skipped is None]:
            found.append(build)
    return " ".join(found)


def workflow(condition: str, *, needed: str = "") -> str:
    quoted = condition.replace("'", "''")
    return (
        "on: push\njobs:\n"
        f"  t: {{runs-on: docker, container: a, if: '{quoted}', steps: [{{run: x}}]}}\n"
        f"  d: {{runs-on: docker, container: a, needs: t, {needed} steps: [{{run: y}}]}}\n"
    )


@pytest.mark.parametrize(
    ("condition", "builds"),
    [
        ("github.ref == 'refs/heads/main'", "main nightly"),
        ("github.ref != 'refs/heads/main'", "dev tag pull fork asked"),
        ("${{ github.ref_name == 'main' }}", "main nightly"),
        ("startsWith(github.ref, 'refs/tags/v')", "tag"),
        ("!startsWith(github.ref, 'refs/tags/')", "main dev pull fork nightly asked"),
        ("startsWith(github.ref, 'refs/heads/d')", "dev asked"),
        ("github.event_name == 'push'", "main dev tag"),
        ("github.event_name != 'pull_request'", "main dev tag nightly asked"),
        ("github.event_name == 'push' && github.ref == 'refs/heads/main'", "main"),
        ("github.event_name == 'schedule' || github.event_name == 'workflow_dispatch'", "nightly asked"),
        (f"github.event_name == 'push' || {HEAD}.full_name != github.repository", "main dev tag fork nightly asked"),
        ("github.event_name == 'pull_request' || github.ref == 'refs/heads/main'", "main pull fork nightly"),
        (f"github.event_name != 'pull_request' || !{HEAD}.fork", "main dev tag pull nightly asked"),
        ("github.base_ref == 'main'", "pull"),
        ("github.ref_type == 'tag'", "tag"),
        ("github.repository == 'o/r'", ALL),
        ("github.repository == 'other/r'", ""),
        ("github.repository_owner == 'o' && !(github.ref == 'refs/heads/dev')", "main tag pull fork nightly"),
        ("success() && github.ref_type == 'tag'", "tag"),
        ("true", ALL),
    ],
)
def test_a_job_runs_in_the_builds_of_its_condition(condition: str, builds: str):
    assert runs(workflow(condition), "t") == builds
    assert runs(workflow(condition), "d") == builds  # GitHub skips what needs a job that is skipped
    assert runs(workflow(condition, needed="if: always(),"), "d") == ALL


@pytest.mark.parametrize(
    "condition",
    [
        "failure() || github.ref_type == 'tag'",
        "cancelled()",
        "github.actor == 'a'",
        "needs.x.outputs.y == 'z'",
        "contains(github.event.head_commit.message, 'x')",
        "github.ref == 'refs/heads/a*'",
        "always() || github.ref_type == 'tag'",
        "github.ref == 'refs/heads/main' || startsWith(github.ref, 'refs/tags/')",
        "github.ref == 'refs/heads/main' && github.ref == 'refs/heads/dev'",
        "github.ref ==",
        "(github.ref_type == 'tag'",
        "github.ref_type == 'tag' &",
        "false",
        "(" * 50 + "true" + ")" * 50,
    ],
)
def test_a_job_whose_condition_is_unknown_is_left_out(condition: str):
    omissions = Omissions("f")
    assert convert_github(read(workflow(condition)), "ci", omissions) == ()
    assert [each.key for each in omissions.all] == ["jobs.t.if", "jobs.d.needs"]


def test_a_job_for_all_ends_waits_and_keeps_its_condition():
    text = workflow("github.ref_type == 'tag'", needed="if: \"always() && github.event_name == 'push'\",")
    (pipeline,) = convert_github(read(text), "ci", Omissions("f"))
    assert pipeline.document["jobs"]["d"]["when"] == {"status": "always", "event": ["push", "tag"]}
    assert pipeline.document["jobs"]["d"]["needs"] == ["t"]
    assert runs(text, "d") == "main dev tag"


def test_a_job_needs_what_is_behind_one_for_all_ends():
    text = workflow("always()").replace("if: 'always()'", "needs: r, if: 'always()'")
    text += "  r: {runs-on: docker, container: a, if: github.ref_type == 'tag', steps: [{run: z}]}\n"
    text += "  f: {runs-on: docker, container: a, needs: t, if: failure(), steps: [{run: z}]}\n"
    (pipeline,) = convert_github(read(text), "ci", Omissions("f"))
    jobs = pipeline.document["jobs"]
    assert [jobs[each]["needs"] for each in "tdf"] == [["r"], ["t", "r"], ["t", "r"]]
    assert (runs(text, "t"), runs(text, "d")) == (ALL, "tag")  # GitHub skips d with r, though t runs


MAIN = '$CI_COMMIT_BRANCH == "main"'
PULL = '$CI_PIPELINE_SOURCE == "merge_request_event"'


@pytest.mark.parametrize(
    ("members", "builds"),
    [
        (f"rules: [{{if: '{MAIN}'}}]", "main nightly"),
        ("rules: [{if: $CI_COMMIT_TAG}]", "tag"),
        (f"rules: [{{if: '{PULL}'}}]", "pull fork"),
        (f"rules: [{{if: '{PULL}'}}, {{if: '{MAIN}'}}]", "main pull fork nightly"),
        (f"rules: [{{if: '{MAIN} || $CI_COMMIT_TAG'}}]", "main tag nightly"),
        (f"rules: [{{if: '{PULL}', when: never}}, {{when: on_success}}]", "main dev tag nightly asked"),
        ("rules: [{if: $CI_COMMIT_TAG, when: never}, {when: always}]", "main dev pull fork nightly asked"),
        ("only: [tags]", "tag"),
        ("only: [branches]", "main dev nightly asked"),
        ("only: [main]", "main nightly"),
        ("except: [tags]", "main dev nightly asked"),
        ("only: [main, merge_requests]", "main pull fork nightly"),
    ],
)
def test_a_job_of_gitlab_runs_in_the_builds_of_its_rules(members: str, builds: str):
    others = "o: {image: a, script: x, rules: [{when: on_success}]}\n"
    assert runs(f"{others}t: {{image: a, script: x, {members}}}\n", "t") == builds


@pytest.mark.parametrize(
    "rules",
    [
        f"[{{if: '{MAIN}', when: never}}, {{when: on_success}}]",
        f"[{{if: '{MAIN}', when: manual}}]",
        f"[{{if: '{MAIN}', when: always}}, {{if: $CI_COMMIT_TAG}}]",
        f"[{{if: '{MAIN}', changes: [a.c]}}, {{if: $CI_COMMIT_TAG}}]",
        "[{if: $CI_COMMIT_TAG, variables: {A: b}}]",
        "[{if: $CI_COMMIT_TAG, allow_failure: true}]",
        "[{when: never}]",
        "[]",
    ],
)
def test_a_job_of_gitlab_with_unknown_rules_is_left_out(rules: str):
    omissions = Omissions("f")
    assert convert_gitlab(read(f"t: {{image: a, script: x, rules: {rules}}}"), omissions) == ()
    assert [each.key for each in omissions.all] == ["t.rules"]


def test_changed_files_are_a_condition():
    rules = "rules: [{if: $CI_COMMIT_BRANCH, changes: ['src/**', '**/*.c']}]"
    (pipeline,) = convert_gitlab(read(f"t: {{image: a, script: x, {rules}}}"), Omissions("f"))
    assert pipeline.document["jobs"]["t"]["when"] == {"paths": ["src/**", "**/*.c"]}
    on = "{push: {branches: [main], paths: ['**.js', '!a/**']}, pull_request: {paths-ignore: ['*.md']}}"
    text = workflow("true").replace("on: push", f"on: {on}")
    (pipeline,) = convert_github(read(text), "ci", Omissions("f"))
    assert pipeline.on == {
        "push": {"branches": ["main"], "paths": ["**/*.js", "!a/**"]},
        "pull_request": {"paths": ["!*.md"]},
    }


def matrix_of(strategy: str) -> dict[str, object]:
    text = workflow("true").replace("container: a", f"container: 'a:${{{{ matrix.v }}}}', strategy: {{{strategy}}}", 1)
    (pipeline,) = convert_github(read(text), "ci", Omissions("f"))
    jobs: dict[str, dict[str, object]] = pipeline.document["jobs"]
    return {name: job.get("matrix", job.get("image")) for name, job in jobs.items() if name != "d"}


def test_a_matrix_stays_one_with_what_it_excludes():
    found = matrix_of("matrix: {v: [1, 2], o: [x, y], exclude: [{v: 1, o: y}]}")
    assert found == {"t": {"v": ["1", "2"], "o": ["x", "y"], "exclude": [{"v": "1", "o": "y"}]}}


def test_cells_that_are_included_are_jobs():
    assert matrix_of("matrix: {v: [1], include: [{v: 3}]}") == {"t": {"v": ["1", "3"]}}
    assert matrix_of("matrix: {v: [1], include: [{v: 3, o: z}]}") == {"t-1": "a:1", "t-3-z": "a:3"}


def test_values_with_quotes_are_no_matrix():
    strategy = 'matrix: {v: [1, 2], q: ["it\'s", "b"]}'
    text = workflow("true").replace("container: a", f"container: b, strategy: {{{strategy}}}", 1)
    text = text.replace("{run: x}", "{run: 'echo ${{ matrix.q }}', env: {A: b}}", 1)
    (pipeline,) = convert_github(read(text), "ci", Omissions("f"))
    assert sorted(pipeline.document["jobs"]) == ["d", "t-1-b", "t-1-it's", "t-2-b", "t-2-it's"]
    assert len(pipeline.document["jobs"]["d"]["needs"]) == 4
