"""Steps of Woodpecker and Drone as jobs: their order, disks, filters, commands, and what is lost."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from actors.ir import Built
from actors.ir.systems import NotReadable
from tests.actors.ir.systems.translation import BUILDS, Translated

A = "{name: a, image: x, commands: [make]}"
PLUGIN = "{name: p, image: plugins/docker, settings: {repo: x}}"
ALL = " ".join(BUILDS)


def steps(*given: str, head: str = "") -> str:
    return f"{head}\nsteps:\n" + "".join(f"- {each}\n" for each in given)


def test_steps_of_one_image_start_from_each_other():
    found = Translated.woodpecker(steps(A, "{name: b, image: x, commands: [b]}", "{name: c, image: x, commands: [c]}"))
    assert found.jobs == {"a": [], "b": ["a builds_in"], "c": ["b builds_in"]}
    assert found.omissions == ()


def taken(found: Translated, build: str = "main") -> dict[str, str]:
    """Return whose workspace each job takes in a build."""
    jobs = found.plan(BUILDS[build]).jobs
    return {job.step_key: jobs[each.position].step_key for job in jobs for each in job.depends_on if each.workspace}


def test_a_step_of_another_image_takes_the_workspace():
    b, c, d = (f"{{name: {name}, image: {image}, commands: [{name}]}}" for name, image in ("by", "cy", "dx"))
    found = Translated.woodpecker(steps(A, b, c, d))
    assert found.jobs == {"a": [], "b": ["a depends_on"], "c": ["b builds_in"], "d": ["c depends_on"]}
    assert (taken(found), found.omissions) == ({"b": "a", "d": "c"}, ())


def test_steps_side_by_side_are_told_to_share_no_workspace():
    given = steps(
        "{name: a, image: x, commands: [a], depends_on: []}",
        "{name: b, image: y, commands: [b], depends_on: []}",
        "{name: c, image: x, commands: [c], depends_on: [a, b]}",
    )
    found = Translated.woodpecker(given)
    assert (found.losses, taken(found)) == (["c"], {})
    assert "waits for b, and does not have" in found.told("c")


def test_steps_after_a_failure_take_the_workspace():
    tell = "{name: tell, image: y, commands: [t], when: [{status: [success, failure]}]}"
    found = Translated.woodpecker(steps(A, A.replace("a,", "b,"), tell))
    assert (taken(found), found.losses) == ({"tell": "b"}, [])


def test_a_plugin_runs_its_image_with_its_settings():
    settings = (
        "{my-repo: a b, n: 3, on: true, tags: [a, '${CI_COMMIT_TAG}', 2], empty: , list: [], map: {b: [1, x], a: null},"
        " mixed: [{a: true}], sha: '${CI_COMMIT_SHA}', token: {from_secret: deploy_token}}"
    )
    found = Translated.woodpecker(steps(A, f"{{name: p, image: 'acme/s3:1', settings: {settings}}}"))
    job = found.plan(BUILDS["tag"]).jobs[1]
    assert (job.command, job.image, job.secrets) == ("", "acme/s3:1", ("PLUGIN_TOKEN",))
    assert {name: value for name, value in job.env.items() if name.startswith("PLUGIN_")} == {
        "PLUGIN_MY_REPO": "a b",
        "PLUGIN_N": "3",
        "PLUGIN_ON": "true",
        "PLUGIN_TAGS": "a,v1,2",
        "PLUGIN_EMPTY": "",
        "PLUGIN_LIST": "",
        "PLUGIN_MAP": '{"a":null,"b":[1,"x"]}',
        "PLUGIN_MIXED": '[{"a":true}]',
        "PLUGIN_SHA": "",
    }
    assert (job.env["CI_COMMIT_TAG"], taken(found, "tag"), found.losses) == ("v1", {"p": "a"}, [])
    assert "secret set ORG/PIPELINE PLUGIN_TOKEN" in found.told("p.settings.deploy_token")


@pytest.mark.parametrize(
    ("settings", "why"),
    [
        ("{a: 0644}", "write it in quotes"),
        ("{a: 1.10}", "write it in quotes"),
        ("{a: {b: {from_secret: x}}}", "a setting of its own"),
        ("{a: '${CI_COMMIT_BRANCH}'}", "known only in a build"),
        ("{a: '${CI_COMMIT_SHA:0:8}'}", "known only in a build"),
        ("{a: '${{ build.branch }}'}", "stands for a name here"),
        ("{a-b: 1, a.b: 2}", "two settings have one"),
        ("{token: {from_secret: other}}", "is another secret in another step"),
    ],
)
def test_a_plugin_that_would_get_something_else_is_left_out(settings: str, why: str):
    first = "{name: a, image: x, settings: {token: {from_secret: one}}}"
    found = Translated.woodpecker(steps(first, f"{{name: p, image: x, settings: {settings}}}"))
    assert list(found.jobs) == ["a"]
    assert why in " ".join(each.why for each in found.omissions if each.is_loss)


def test_steps_without_dependencies_run_side_by_side():
    given = steps(
        "{name: a, image: x, commands: [a], depends_on: []}",
        "{name: b, image: y, commands: [b], depends_on: []}",
        "{name: c, image: x, commands: [c], depends_on: [a]}",
    )
    found = Translated.woodpecker(given)
    assert (found.jobs, found.losses) == ({"a": [], "b": [], "c": ["a builds_in"]}, [])


def test_what_may_not_run_passes_no_disk_on():
    given = steps(A, "{name: b, image: x, commands: [b], when: {event: tag}}", "{name: c, image: x, commands: [c]}")
    found = Translated.woodpecker(given)
    assert found.jobs["c"] == ["a depends_on", "b depends_on"]
    assert (found.losses, taken(found), taken(found, "tag")) == ([], {"c": "a"}, {"c": "b"})


def test_steps_for_other_builds_do_not_wait_for_each_other():
    given = steps(
        A,
        "{name: b, image: x, commands: [b], when: {event: tag}}",
        "{name: c, image: x, commands: [c], when: {event: push}}",
    )
    found = Translated.woodpecker(given)
    assert (found.jobs["c"], found.losses) == (["a builds_in"], [])


@pytest.mark.parametrize(
    "lost",
    [
        PLUGIN,
        "{name: p, image: x, commands: [p], detach: true}",
        "{name: p, image: x, commands: [p], privileged: true}",
        "{name: p, image: x, commands: [p], volumes: ['/a:/b']}",
        "{name: p, image: x, commands: [p], surprise: 1}",
        "{name: p, image: x, commands: [p], when: {evaluate: 'a == 1'}}",
        "{name: p, image: x, commands: ['echo ${CI_COMMIT_MESSAGE}']}",
        "{name: p, image: x, commands: ['echo $CI_FORGE_URL']}",
        "{name: p, image: x, commands: [\"echo '${CI_COMMIT_BRANCH}'\"]}",
        "{name: p, image: x, commands: [p], environment: {CI_BRANCH: a}}",
        "{name: p, image: x, commands: [p], failure: cancel}",
        "{name: p, image: '-x y', commands: [p]}",
        "{name: p, image: x, commands: ['echo ${{ build.branch }}']}",
    ],
)
@pytest.mark.parametrize("system", ["woodpecker", "drone"])
def test_what_comes_after_a_lost_step_is_lost(lost: str, system: str):
    given = steps(A, lost, "{name: d, image: x, commands: [./deploy]}").replace(
        "$CI_F", "$DRONE_F" if system == "drone" else "$CI_F"
    )
    found = getattr(Translated, system)(given.replace("${CI_", "${DRONE_") if system == "drone" else given)
    assert list(found.jobs) == ["a"]
    assert len(found.losses) == 2
    assert "comes after p" in found.told(found.losses[1])


def test_a_lost_step_for_other_builds_is_no_gate():
    tagged = PLUGIN.replace("settings", "when: {event: tag}, settings")
    found = Translated.woodpecker(steps(A, tagged, "{name: d, image: x, commands: [d], when: {event: push}}"))
    assert list(found.jobs) == ["a", "d"]


def test_a_plugin_that_tells_people_is_not_needed():
    found = Translated.woodpecker(
        steps(A, "{name: n, image: plugins/slack, settings: {room: x}}", A.replace("a,", "b,"))
    )
    assert (found.jobs, found.losses) == ({"a": [], "b": ["a builds_in"]}, [])
    assert "notify add" in found.told("n")


@pytest.mark.parametrize(
    "head",
    [
        "services: [{name: db, image: postgres, volumes: [a]}]",
        "labels: {platform: linux/arm64}",
        "surprise: 1",
        "runs_on: [failure]",
    ],
)
def test_what_a_whole_file_needs_is_not_left_out(head: str):
    found = Translated.woodpecker(steps(A, head=head))
    assert (found.pipelines, len(found.losses)) == ((), 1)


def test_files_that_wait_for_each_other_are_one_pipeline():
    found = Translated.woodpecker(
        steps(A), steps("{name: d, image: x, commands: [d]}", head="depends_on: [a]"), steps(A)
    )
    assert sorted(found.texts) == ["b.yml", "c.yml"]
    jobs = {
        job.step_key: len(job.depends_on)
        for job in Translated.woodpecker(steps(A), steps(A, head="depends_on: [a]")).plan().jobs
    }
    assert jobs == {"a-a": 0, "b-a": 1}


def test_files_that_wait_for_each_other_have_workspaces():
    two, three = (A.replace("a, image: x", new) for new in ("b, image: y", "c, image: z"))
    found = Translated.woodpecker(
        steps(A, two), steps(A, two, three, head="depends_on: [a]"), steps(A, two, head="depends_on: [a, b]")
    )
    assert taken(found) == {"a-b": "a-a", "b-b": "b-a", "b-c": "b-b", "c-b": "c-a"}
    assert found.omissions == ()


@pytest.mark.parametrize("lost", [PLUGIN, "{name: p, image: x, commands: [p], detach: true}"])
def test_a_file_after_one_that_is_not_whole_is_left_out(lost: str):
    found = Translated.woodpecker(steps(A, lost), steps(A, head="depends_on: [a]"))
    assert list(found.jobs) == ["a-a"]
    assert "not there as a whole" in found.told("b.depends_on")


def test_files_in_a_circle_are_refused():
    with pytest.raises(NotReadable, match="waits for itself"):
        Translated.woodpecker(steps(A, head="depends_on: [b]"), steps(A, head="depends_on: [a]"))


@pytest.mark.parametrize(
    ("when", "builds"),
    [
        ("{event: push}", "main dev"),
        ("{event: [push, tag]}", "main dev tag"),
        ("[{event: push}, {event: tag}]", "main dev tag"),
        ("{event: push, branch: main}", "main"),
        ("{event: push, branch: {exclude: [main]}}", "dev"),
        ("{event: pull_request, branch: main}", "pull"),
        ("[{event: push, branch: main}, {event: pull_request}]", "main pull other"),
        ("{event: {exclude: [tag, pull_request]}}", "main dev nightly asked"),
        ("{event: cron}", "nightly"),
        ("{event: cron, cron: x}", "nightly"),
        ("{event: [pull_request, cron], cron: x}", "pull other nightly"),
        ("{event: manual}", "asked"),
        ("{ref: refs/tags/v*}", "tag"),
        ("{ref: refs/heads/main}", "main nightly"),
    ],
)
def test_a_step_runs_in_the_builds_of_its_filter(when: str, builds: str):
    found = Translated.woodpecker(steps(A, f"{{name: t, image: x, commands: [t], when: {when}}}"))
    assert found.runs("t") == builds
    assert found.runs("a") == ALL


def test_a_schedule_of_drone_is_for_no_other_builds():
    step = "{name: t, image: x, commands: [t], when: {event: [push, cron], cron: x}}"
    found = Translated.drone(f"kind: pipeline\nname: d\nsteps: [{A}, {step}]\n")
    assert found.runs("t") == "nightly"


@pytest.mark.parametrize(
    ("changed", "has_run"),
    [(["src/a.md", "b.txt"], True), (["src/a.md"], False), (["b.txt"], False), (["src/a.c"], True), (None, True)],
)
def test_files_that_are_excluded_hide_no_others(changed: list[str] | None, has_run: bool):
    when = "{event: push, path: {include: ['src/**'], exclude: ['**/*.md']}}"
    found = Translated.woodpecker(steps(A, f"{{name: t, image: x, commands: [t], when: {when}}}"))
    jobs = found.plan(Built(event="push", branch="main", changed=changed)).jobs
    assert [job.skipped is None for job in jobs if job.step_key == "t"] == [has_run]


@pytest.mark.parametrize(
    ("when", "on"),
    [
        ("{event: push}", {"push": True, "manual": False}),
        ("{event: push, branch: [main, dev]}", {"push": {"branches": ["main", "dev"]}, "manual": False}),
        ("{event: pull_request, branch: main}", {"pull_request": {"branches": ["main"]}, "manual": False}),
        ("{event: tag, ref: refs/tags/v*}", {"tag": ["v*"], "manual": False}),
        (
            "[{event: push, path: src/**}, {event: [tag, manual]}]",
            {"push": {"paths": ["src/**"]}, "tag": ["*"]},
        ),
    ],
)
def test_the_filter_of_a_file_says_what_is_built(when: str, on: dict[str, object]):
    found = Translated.woodpecker(steps(A, head=f"when: {when}"))
    assert found.pipelines[0].on == on
    assert "when" not in found.pipelines[0].document["jobs"]["a"]


def test_a_filter_of_branches_is_of_the_target_of_pull_requests():
    head = "when: [{event: push, branch: main}, {event: pull_request}]"
    found = Translated.woodpecker(steps(A, "{name: t, image: x, commands: [t], when: {branch: main}}", head=head))
    assert found.pipelines[0].on["push"] == {"branches": ["main"]}
    assert found.runs("t") == "main dev pull"  # and dev is not built


def test_a_filter_that_cannot_be_said_leaves_a_step_out():
    found = Translated.woodpecker(steps(A, "{name: t, image: x, commands: [t], when: {branch: main}}"))
    assert (list(found.jobs), found.losses) == (["a"], ["t.when"])
    assert "name the events" in found.told("t.when")


def test_a_step_runs_also_after_a_failure():
    given = steps(A, "{name: t, image: x, commands: [t], when: {status: [success, failure]}}")
    found = Translated.woodpecker(given)
    assert found.pipelines[0].document["jobs"]["t"]["when"] == {"status": "always"}
    assert found.jobs["t"] == ["a depends_on"]


AFTER_FAILURES = "depends_on: [a]\nruns_on: [failure]"


def test_a_file_may_be_for_failures_of_others_alone():
    found = Translated.woodpecker(steps(A, A.replace("a,", "b,")), steps(A, A.replace("a,", "b,"), head=AFTER_FAILURES))
    jobs = found.pipelines[0].document["jobs"]
    assert (found.losses, jobs["b-a"]["when"]) == ([], {"status": "failed"})
    assert (jobs["b-b"]["from"], "when" in jobs["b-b"]) == ("b-a", False)
    assert found.jobs["b-a"] == ["a-a depends_on", "a-b depends_on"]


@pytest.mark.parametrize("second", [A.replace("x,", "y,"), A.replace("x,", "x, when: {status: failure},")])
def test_a_file_for_failures_has_one_image_and_no_other_status(second: str):
    found = Translated.woodpecker(steps(A), steps(A, second.replace("a,", "b,", 1), head=AFTER_FAILURES))
    assert list(found.jobs) == ["a-a"]
    assert "is for failures of other workflows" in found.told("b")


def test_a_matrix_of_one_step_stays_one():
    found = Translated.woodpecker(
        steps("{name: a, image: 'go:${V}', commands: ['echo $V']}", head="matrix: {V: [1, 2]}")
    )
    assert found.pipelines[0].document["jobs"]["a"]["matrix"] == {"V": ["1", "2"]}
    assert [(job.image, job.env["V"]) for job in found.plan().jobs] == [("go:1", "1"), ("go:2", "2")]


def test_each_cell_has_disks_of_its_own():
    given = steps(A, "{name: b, image: x, commands: [b], when: {matrix: {V: 2}}}", head="matrix: {V: [1, 2]}")
    found = Translated.woodpecker(given)
    assert found.jobs == {"a-1": [], "a-2": [], "b-2": ["a-2 builds_in"]}


def output(command: str, folder: Path, **env: str) -> str:
    """Return what a command of a job prints."""
    environment = {
        "PATH": "/usr/bin:/bin",
        "CI_COMMIT": "0123456789abcdef",
        "CI_BRANCH": "main",
        "CI_EVENT": "push",
    } | env
    argv = ["bash", "-eo", "pipefail", "-c", command]
    done = subprocess.run(argv, cwd=folder, env=environment, capture_output=True, text=True, check=False)
    return done.stdout + f"exit {done.returncode}"


@pytest.mark.parametrize(
    ("commands", "printed"),
    [
        ("['echo $CI_COMMIT_SHA']", "0123456789abcdef\nexit 0"),
        ("['echo \"${CI_COMMIT_SHA:0:8}\"']", "01234567\nexit 0"),
        ("['A=b', 'echo $${A}']", "b\nexit 0"),
        ("['echo ${CI_PIPELINE_EVENT}-${CI_COMMIT_BRANCH}']", "push-main\nexit 0"),
        ("['false | true', 'echo on']", "on\nexit 0"),
        ("['false', 'echo on']", "exit 1"),
        ("['cd /', 'pwd']", "/\nexit 0"),
        ("['echo $CI']", "woodpecker\nexit 0"),
    ],
)
def test_commands_do_the_same(commands: str, printed: str, tmp_path: Path):
    found = Translated.woodpecker(steps(f"{{name: a, image: x, commands: {commands}}}"))
    assert output(found.plan().jobs[0].command, tmp_path) == printed


@pytest.mark.parametrize("branch", ["$(touch x)", '"; touch x; "', "`touch x`", "'; touch x; '"])
def test_a_name_of_a_stranger_is_no_command(branch: str, tmp_path: Path):
    environment, commands = "{B: 'b-${CI_COMMIT_BRANCH}'}", "['echo \"${CI_COMMIT_BRANCH}\" $B']"
    step = f"{{name: a, image: x, environment: {environment}, commands: {commands}}}"
    found = Translated.woodpecker(steps(step))
    assert "exit 0" in output(found.plan().jobs[0].command, tmp_path, CI_BRANCH=branch)
    assert list(tmp_path.iterdir()) == []


def test_secrets_are_named_and_told():
    given = steps("{name: a, image: x, environment: {T: {from_secret: tok}}, secrets: [other], commands: ['use $T']}")
    found = Translated.woodpecker(given)
    assert found.plan().jobs[0].secrets == ("tok", "OTHER")
    assert 'export T="$tok"' in found.plan().jobs[0].command
    assert "secret set" in found.told("a.environment.T")


DRONE = "kind: pipeline\ntype: docker\nname: {}\n"


def test_documents_of_drone_wait_for_each_other():
    text = "---\n".join(
        (
            DRONE.format("test") + steps(A),
            DRONE.format("ship") + steps(A.replace("a,", "s,"), head="depends_on: [test]\ntrigger: {event: tag}"),
            "kind: secret\nname: k\n",
        )
    )
    found = Translated.drone(text)
    assert found.jobs == {"test-a": [], "ship-s": ["test-a depends_on"]}
    assert (found.runs("ship-s"), found.runs("test-a")) == ("tag", ALL)
    assert found.losses == []


@pytest.mark.parametrize(
    "kind", ["type: exec", "type: ssh", "platform: {arch: arm64}", "platform: {os: windows}", "node: {a: b}"]
)
def test_a_pipeline_of_drone_on_another_runner_is_left_out(kind: str):
    text = f"kind: pipeline\nname: x\n{kind}" + steps(A)
    found = Translated.drone(text)
    assert (found.pipelines, len(found.losses)) == ((), 1)


def test_drone_builds_no_tag_for_a_filter_of_branches():
    found = Translated.drone(DRONE.format("x") + steps(A, head="trigger: {branch: [main]}"))
    assert found.pipelines[0].on == {"push": {"branches": ["main"]}, "pull_request": {"branches": ["main"]}}


def test_variables_of_drone_are_set(tmp_path: Path):
    given = steps("{name: a, image: x, commands: ['echo ${DRONE_COMMIT_SHA:0:4} $DRONE_BRANCH $DRONE_BUILD_EVENT $V']}")
    found = Translated.drone(DRONE.format("x") + "environment: {V: 1}\n" + given)
    job = found.plan().jobs[0]
    assert output(job.command, tmp_path, **job.env) == "0123 main push 1\nexit 0"
