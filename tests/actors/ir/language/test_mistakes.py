"""Mistakes in a pipeline: all at once, each with line, column and the nearest right word."""

from __future__ import annotations

import pytest

from tests.actors.ir.language.files import mistakes


def test_all_mistakes_are_found_at_once():
    text = """\
    name: [a]
    onn: 3
    on: {push: {branchs: main}, manual: maybe}
    jobs:
      a: {run: x, imge: debian, needs: [bb, d], retry: 99}
      b: {run: "${{ matrix.x }}", from: c, image: x, memory: 3MB}
      c: {from: b, run: x}
      d: {needs: a}
      e: 3
    """
    assert mistakes(text) == [
        "1:1: name: expected text, got a list",
        '2:1: onn: unknown key "onn": did you mean "on"?',
        '3:13: on.push.branchs: unknown key "branchs": did you mean "branches"?',
        '3:29: on.manual: expected true, false or a mapping with inputs, got "maybe"',
        '5:15: jobs.a.imge: unknown key "imge": did you mean "image"?',
        '5:37: jobs.a.needs[0]: unknown job "bb": did you mean "b"?',
        "5:45: jobs.a.retry.limit: expected at most 10",
        '6:3: jobs.b: dependency cycle through "b" -> "c" -> "b"',
        '6:7: jobs.b.run: unknown name "matrix.x"',
        '6:40: jobs.b.image: the image has no effect: the job starts from the disk of "c"',
        '6:50: jobs.b.memory: expected a size in whole GB such as 8GB, got "3MB"',
        '8:3: jobs.d.run: it needs "run"',
        '9:3: jobs.e: expected a mapping, got "3"',
    ]


@pytest.mark.parametrize(
    ("text", "mistake"),
    [
        ("3", "1:1: expected a mapping with jobs"),
        ("name: x", '1:1: jobs: it needs "jobs"'),
        ("jobs: {}", "1:1: jobs: expected at least one"),
        ("jobs: [a]", "1:1: jobs: expected a mapping, got a list"),
        ("{slug: A b, jobs: {a: {run: x}}}", "1:2: slug: expected a name of a-z, 0-9 and -"),
        ('{version: "2", jobs: {a: {run: x}}}', '1:2: version: expected the version "1"'),
        ("{on: {push: {branches: []}}, jobs: {a: {run: x}}}", "1:14: on.push.branches: expected at least one"),
        (
            "{on: {pull_request: {types: openned}}, jobs: {a: {run: x}}}",
            '1:22: on.pull_request.types: there is no type "openned": did you mean "opened"?',
        ),
        (
            "{on: {schedule: [{cron: 1 2 3}]}, jobs: {a: {run: x}}}",
            (
                "1:19: on.schedule[0].cron: expected five fields: minute, hour, day of month, month, day of week, "
                'as in "30 4 * * 1-5"'
            ),
        ),
        (
            "{on: {schedule: [{cron: 0 4 * * *, timezone: Mars}]}, jobs: {a: {run: x}}}",
            '1:36: on.schedule[0].timezone: expected the name of a time zone, such as Europe/Berlin or UTC, got "Mars"',
        ),
        (
            "{on: {schedule: {cron: 0 4 * * *}}, jobs: {a: {run: x}}}",
            "1:7: on.schedule: expected a list, got an object",
        ),
        (
            "{on: {pipeline: {slug: base, state: green}}, jobs: {a: {run: x}}}",
            '1:30: on.pipeline.state: expected "passed", "failed" or "always", got "green"',
        ),
        (
            "{on: {pipeline: {slug: a/b/c}}, jobs: {a: {run: x}}}",
            (
                "1:18: on.pipeline.slug: expected a pipeline, or one of another organization as "
                '"acme/base-image", got "a/b/c"'
            ),
        ),
        (
            "{on: {manual: {inputs: {v: {}}}, pipeline: {slug: b, inputs: {v: secrets.X}}}, jobs: {a: {run: x}}}",
            '1:63: on.pipeline.inputs.v: expected "inputs.NAME" or "outputs.JOB.NAME", got "secrets.X"',
        ),
        (
            "{on: {manual: {inputs: {aims: {}}}, pipeline: {slug: b, inputs: {aism: inputs.v}}}, jobs: {a: {run: x}}}",
            '1:66: on.pipeline.inputs.aism: unknown input "aism": did you mean "aims"?',
        ),
        (
            "{jobs: {a: {run: x, registries: ghcr.io}}}",
            "1:21: jobs.a.registries: it is a login for programs that build images: give the job `containers: true`",
        ),
        (
            "{jobs: {a: {run: x, containers: true, registries: https://ghcr.io}}}",
            '1:39: jobs.a.registries[0]: expected the host of a registry, such as "ghcr.io", got "https://ghcr.io"',
        ),
        ("{on: {pipeline: {}}, jobs: {a: {run: x}}}", '1:7: on.pipeline.slug: it needs "slug"'),
        (
            '{concurrency: {group: "a ${{ build.branch }}"}, jobs: {a: {run: x}}}',
            "1:16: concurrency.group: names in text are not replaced here: {branch} stands for the branch",
        ),
        (
            "{jobs: {a: {run: x, concurrency: {group: a, limit: 0}}}}",
            "1:45: jobs.a.concurrency.limit: expected at least 1",
        ),
        (
            "{on: {push: {branches: [main, '!wip']}}, jobs: {a: {run: x}}}",
            (
                '1:31: on.push.branches[1]: nothing is excluded here: list what is wanted, or say it under "not" of '
                '"when", got "!wip"'
            ),
        ),
        (
            "{on: {tag: 'v[0-9]+'}, jobs: {a: {run: x}}}",
            '1:7: on.tag[0]: no branch or tag has "[" in its name, and only "*" and "?" stand for others',
        ),
        (
            "{on: {pull_request: {paths: 'src/{a,b}'}}, jobs: {a: {run: x}}}",
            (
                '1:22: on.pull_request.paths[0]: "{a,b}" is no choice here: '
                "make an entry of the list for each of its parts"
            ),
        ),
        ("{on: push, jobs: {a: {run: x}}}", '1:2: on: expected a mapping, got "push"'),
    ],
)
def test_a_mistake_of_the_file_is_told(text: str, mistake: str):
    assert mistakes(text) == [mistake]


@pytest.mark.parametrize(
    ("keys", "mistake"),
    [
        ("run: ", "run: expected text, and there is nothing"),
        ("run: ''", "run: expected a command"),
        ("run: [a]", "run: expected text, got a list"),
        ("script: x", 'script: unknown key "script": did you mean "run"?'),
        ("run: x, image: a b", 'image: expected the name of an image such as debian:12, got "a b"'),
        ("run: x, env: {a-b: 1}", 'env.a-b: expected the name of a variable, of letters, digits and "_", got "a-b"'),
        ("run: x, env: {A: [1]}", "env.A: expected text, got a list"),
        ("run: x, env: {A: }", "env.A: expected text, and there is nothing"),
        ("run: x, env: [A]", "env: expected a mapping, got a list"),
        ("run: x, timeout: 5", 'timeout: expected a time such as 90s, 30m or 1h30m, got "5"'),
        ("run: x, timeout: 0s", 'timeout: expected a time such as 90s, 30m or 1h30m, got "0s"'),
        ("run: x, cpu: 0", "cpu: expected at least 1"),
        ("run: x, cpu: 1.5", 'cpu: expected a whole number, got "1.5"'),
        ("run: x, cpu: '2'", 'cpu: expected a whole number, got "2"'),
        ("run: x, network: off", 'network: expected true or false, got "off"'),
        ("run: x, artifacts: /etc", 'artifacts[0]: expected a path inside the workspace, got "/etc"'),
        ("run: x, artifacts: [a/../../b]", 'artifacts[0]: expected a path inside the workspace, got "a/../../b"'),
        (
            "run: x, artifacts: ['!a']",
            'artifacts[0]: nothing is excluded here: expected a glob of files that are wanted, got "!a"',
        ),
        ("run: x, when: {branch: []}", "when.branch: expected at least one"),
        (
            "run: x, when: {branch: '!main'}",
            (
                'when.branch[0]: nothing is excluded here: list what is wanted, or say it under "not" of "when", '
                'got "!main"'
            ),
        ),
        (
            "run: x, when: {tag: 'v[0-9]*'}",
            'when.tag[0]: no branch or tag has "[" in its name, and only "*" and "?" stand for others',
        ),
        (
            "run: x, when: {target_branch: refs/heads/main}",
            (
                'when.target_branch[0]: expected a glob of names as "main" or "v*", without a slash or "refs/" before, '
                'got "refs/heads/main"'
            ),
        ),
        (
            "run: x, when: {paths: '**/*.{ts,tsx}'}",
            'when.paths[0]: "{ts,tsx}" is no choice here: make an entry of the list for each of its parts',
        ),
        (
            "run: x, artifacts: 'dist/*.{whl,tar.gz}'",
            'artifacts[0]: "{whl,tar.gz}" is no choice here: make an entry of the list for each of its parts',
        ),
        (
            "run: x, when: {branch: +(main|dev)}",
            'when.branch[0]: "+(main|dev)" is no choice here: make an entry of the list for each of its parts',
        ),
        (
            "run: x, when: {branch: main, tag: v*}",
            'when.tag: no build has a tag and a branch, and keys mean all of them: it never holds beside "branch"',
        ),
        (
            "run: x, when: {tag: v*, event: [push, schedule]}",
            'when.tag: no build for "push" or "schedule" has one: it never holds beside "event"',
        ),
        (
            "run: x, when: {branch: main, event: tag}",
            'when.branch: no build for "tag" has one: it never holds beside "event"',
        ),
        (
            "run: x, when: {not: {target_branch: main, event: push}}",
            'when.not.target_branch: no build for "push" has one: it never holds beside "event"',
        ),
        ("run: x, when: {not: {}}", "when.not: it says nothing, which always holds: so this condition never does"),
        (
            "run: x, when: {event: push, not: {inputs: {}}}",
            "when.not.inputs: expected at least one",
        ),
        ("run: x, artifacts: ", "artifacts: expected a list, and there is nothing"),
        ("run: x, working_directory: ..", 'working_directory: expected a path inside the workspace, got ".."'),
        ("run: x, retry: {}", 'retry.limit: it needs "limit"'),
        ("run: x, retry: -1", "retry.limit: expected at least 0"),
        ("run: x, cache: {days: 0}", "cache.days: expected at least 1"),
        ("run: x, cache: {files: gone.lock}", 'cache.files: no file of the repository matches "gone.lock"'),
        ("run: x, needs: a", "needs[0]: a job cannot need itself"),
        ("run: x, from: a", "from: a job cannot start from its own disk"),
        ("run: x, from: b", 'from: unknown job "b"'),
        (
            "run: x, matrix: {}",
            "matrix: the matrix has no cells: every axis needs a value, and not all may be excluded",
        ),
        (
            "run: x, matrix: {b: []}",
            "matrix: the matrix has no cells: every axis needs a value, and not all may be excluded",
        ),
        ("run: x, matrix: {b: [1], exclude: [{c: 1}]}", 'matrix.exclude[0].c: unknown axis "c": there is "b"'),
        (
            "run: x, matrix: {b: [1], exclude: [{b: 2}]}",
            'matrix.exclude[0].b: the axis "b" has no value "2": there is "1"',
        ),
        (
            "run: '${{ matrix.b'",
            'run: "${{" has no "}}": a name ends with it, and a command can have "$" and "{{" apart',
        ),
        ("run: '${{ 1 + 1 }}'", 'run: expected a name in ${{ }}, got "1 + 1": there are no operators and no functions'),
        (
            "run: '${{ matrix.djangoo }}', matrix: {django: [1]}",
            'run: unknown name "matrix.djangoo": did you mean "matrix.django"?',
        ),
        ("run: x, identity: {}", 'identity.audience: it needs "audience"'),
        ("run: x, gate: {}", 'gate.environment: it needs "environment"'),
        ("run: x, gate: {environment: Prod}", "gate.environment: expected a name of a-z, 0-9 and -"),
        (
            "run: x, gate: {environment: prod}, concurrency: {group: g}",
            'concurrency: a job with a "gate" has the lock of its environment: take one of both away',
        ),
        (
            "run: x, gate: {environment: prod}, cache: true",
            'cache: a job with a "gate" is not passed from the cache: take one of both away',
        ),
        ("run: x, depends_on: b", 'depends_on: unknown key "depends_on": did you mean "needs"?'),
    ],
)
def test_a_mistake_of_a_job_is_told(keys: str, mistake: str):
    found = mistakes(f"jobs:\n  a: {{{keys}}}\n")
    (one,) = found
    assert one.partition(" ")[2] == f"jobs.a.{mistake}"


def test_what_is_missing_beside_another_unknown_key_is_told():
    assert [each.partition(" ")[2] for each in mistakes("jobs: {a: {surprise: 1}, b: {rum: x}}")] == [
        'jobs.a.run: it needs "run"',
        'jobs.a.surprise: unknown key "surprise"',
        'jobs.b.rum: unknown key "rum": did you mean "run"?',
    ]


def test_keys_that_stand_twice_hide_no_other_mistake():
    text = "env: {A: 1, A: 2}\njobs:\n  a: {run: x}\n  a: {run: y, imge: z}\n  b: {rum: x}\nenv: {}\n"
    assert mistakes(text) == [
        '1:13: the key "A" stands twice here',
        '4:3: the key "a" stands twice here',
        '5:7: jobs.b.rum: unknown key "rum": did you mean "run"?',
        '6:1: the key "env" stands twice here',
    ]


def test_nobody_can_start_from_the_disk_of_a_matrix():
    assert mistakes("jobs:\n  a: {run: x, matrix: {b: [1]}}\n  c: {run: x, from: a}\n") == [
        '3:15: jobs.c.from: "a" has a matrix, and so several disks: start from a job without one'
    ]


@pytest.mark.parametrize(
    ("jobs", "mistake"),
    [
        (
            "a: {run: x}, b: {run: x}, c: {run: x, needs: [a, b]}",
            'jobs.c.workspace: it would have the workspaces of "a" and "b": a job takes one, and `files` of the others',
        ),
        (
            "a: {run: x, matrix: {v: [1, 2]}}, b: {run: x, needs: a}",
            'jobs.b.workspace: "a" has a matrix, and so several workspaces: a job takes one',
        ),
        (
            "a: {run: x, cache: true}, b: {run: x, needs: a}",
            'jobs.a.cache: "b" takes its workspace, which a hit in the cache would not leave: cache the last',
        ),
        (
            "a: {entrypoint: true, run: x}",
            'jobs.a.run: it has no effect beside "entrypoint", which runs the program of the image',
        ),
        (
            "a: {run: x}, b: {entrypoint: true, from: a}",
            "jobs.b.entrypoint: it is that of an image: the job starts from a disk",
        ),
        ("a: {entrypoint: false}", 'jobs.a.run: it needs "run"'),
        (
            "a: {run: x, workspace: own}",
            'jobs.a.workspace: expected "shared", or "shared-NAME" of a-z, 0-9 and -, got "own"',
        ),
    ],
)
def test_a_workspace_that_cannot_be_shared_is_told(jobs: str, mistake: str):
    (found,) = mistakes(f"{{defaults: {{workspace: shared}}, jobs: {{{jobs}}}}}")
    assert found.partition(": ")[2] == mistake
    if "needs" in jobs:
        assert mistakes(f"{{jobs: {{{jobs}}}}}") == []
