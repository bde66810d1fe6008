"""The jobs that a pipeline in YAML describes."""

from __future__ import annotations

import json

import pytest

from actors.ir import Built, IrError, IrSettings, load
from storage import Concurrency, Shape
from tests.actors.ir.language.files import declared, job, mistakes, needs, plan
from tests.records import new_job


def test_a_bare_job_has_the_defaults():
    found = plan("jobs: {a: {run: 'true'}}")
    assert found.jobs == (new_job("a", name="a", image=None),)
    assert found.strict_shell
    assert found.timeout_seconds is None


def test_every_key_has_its_effect():
    found = job(
        "name: Unit tests, image: debian:12, run: make, env: {V: 3.10, W: no}, timeout: 1h30m, retry: {limit: 2,"
        " exit_codes: [75, 1], backoff: 10s}, soft_fail: {exit_codes: 3}, secrets: TOKEN, artifacts: [dist/*, '*.log'],"
        " cpu: 4, memory: 8GB, disk: 40 GiB, network: false, cache: {key: v2}"
    )
    assert found == new_job(
        "a",
        name="Unit tests",
        command="make",
        image="debian:12",
        env={"V": "3.10", "W": "no"},
        timeout_seconds=5400,
        retry_policy={"limit": 2, "exit_codes": [75, 1], "backoff_seconds": 10},
        soft_fail_policy={"exit_codes": [3]},
        secrets=("TOKEN",),
        artifacts=("dist/*", "*.log"),
        shape=Shape(4, 8, 40),
        network=False,
        cache_policy="forever",
        cache_key=found.cache_key,
    )


def test_short_forms_are_long_ones():
    found = job("run: x, retry: 3, soft_fail: true, cache: true")
    assert found.retry_policy == {"limit": 3}
    assert found.soft_fail_policy == {"exit_codes": None}
    assert (found.cache_policy, found.cache_key is None) == ("forever", False)
    off = job("run: x, soft_fail: false, cache: false")
    assert (off.soft_fail_policy, off.cache_policy, off.cache_key) == (None, "none", None)


def test_edges_are_disks_and_order():
    text = """
    jobs:
      deploy: {needs: [test, lint], from: install, run: x}
      test: {from: install, run: x}
      lint: {needs: install, run: x}
      install: {run: x, image: debian:12}
    """
    found = plan(text)
    assert needs(found) == {
        "install": [],
        "test": ["<install"],
        "lint": ["install"],
        "deploy": ["<install", "test", "lint"],
    }
    assert [each.image for each in found.jobs] == ["debian:12", "debian:12", None, "debian:12"]


def test_a_matrix_makes_a_job_of_each_combination():
    text = """
    jobs:
      test:
        matrix: {python: [3.9, 3.10], db: [pg, my sql], exclude: [{python: 3.9, db: my sql}]}
        image: python:${{ matrix.python }}
        env: {DB: "${{matrix.db}}"}
        run: tox -e ${{ matrix.python }}
      report: {needs: test, run: x}
    """
    found = plan(text)
    assert needs(found) == {
        "test-3.9-pg": [],
        "test-3.10-pg": [],
        "test-3.10-my-sql": [],
        "report": ["test-3.9-pg", "test-3.10-pg", "test-3.10-my-sql"],
    }
    assert [(each.name, each.image, each.env, each.command) for each in found.jobs[1:3]] == [
        ("test (3.10, pg)", "python:3.10", {"DB": "pg"}, "tox -e 3.10"),
        ("test (3.10, my sql)", "python:3.10", {"DB": "my sql"}, "tox -e 3.10"),
    ]


def test_files_imply_what_is_needed():
    text = """
    defaults: {artifacts: log}
    jobs:
      use: {run: x, needs: [a], files: {a: [dist/*, log], b: d}}
      a: {run: x, artifacts: [dist, log]}
      b: {run: x}
    """
    found = plan(text)
    assert needs(found)["use"] == ["a", "b"]
    assert found.jobs[-1].files == {"a": ["dist/*", "log"], "b": ["d"]}


def test_files_of_pipelines_are_those_of_jobs_by_pipeline():
    found = job("run: x, files_of: {base-image: {package: dist/*}, acme/lib@release/1.x: {a: [b, c], d: e}}")
    lib = {"a": ["b", "c"], "d": ["e"]}
    assert found.files_of == {"base-image": {"package": ["dist/*"]}, "acme/lib@release/1.x": lib}
    assert not found.depends_on


@pytest.mark.parametrize(
    ("files_of", "mistake"),
    [
        ("{Base Image: {a: d}}", 'Base Image: expected a pipeline, or one and its branch as "base-image@main"'),
        ("{base@: {a: d}}", "base@: expected a pipeline"),
        ("{a/b/c: {a: d}}", "a/b/c: expected a pipeline"),
        ("{base: {}}", "base: expected at least one"),
        ("{base: {a: []}}", "base.a: expected at least one"),
        ("{base: {a: ../d}}", "base.a[0]: "),
        ("{base: dist}", "base: expected a mapping"),
    ],
)
def test_a_mistake_of_files_of_pipelines_is_told(files_of: str, mistake: str):
    found = mistakes(f"jobs: {{a: {{run: x, files_of: {files_of}}}}}")
    assert any(each.partition(" ")[2].startswith(f"jobs.a.files_of.{mistake}") for each in found), found


@pytest.mark.parametrize(
    ("files", "mistake"),
    [
        ("{b: d}", 'b: "b" keeps no files: name them in its "artifacts"'),
        ("{c: d}", 'c: unknown job "c"'),
        ("{a: d}", "a: a job cannot need itself"),
        ("{}", ": expected at least one"),
        ("{b: []}", "b: expected at least one"),
        ("{b: /etc/passwd}", "b[0]: "),
    ],
)
def test_a_mistake_of_files_is_told(files: str, mistake: str):
    found = mistakes(f"jobs: {{a: {{run: x, artifacts: d, files: {files}}}, b: {{run: x}}}}")
    assert any(
        each.partition(" ")[2].startswith(f"jobs.a.files{mistake if mistake[0] in ':[' else f'.{mistake}'}")
        for each in found
    ), found


def test_a_job_that_builds_images_says_so_in_its_environment():
    assert job("run: x, containers: true, env: {A: b}").env == {"A": "b", "CI_CONTAINERS": "true"}
    found = plan("defaults: {containers: true}\njobs: {a: {run: x}, b: {run: x, containers: false}}").jobs
    assert [each.env for each in found] == [{"CI_CONTAINERS": "true"}, {}]


def test_problem_matchers_are_known_by_name():
    assert job("run: x, problems: gcc").problems == ("gcc",)
    assert job("run: x, problems: [ruff, mypy, ruff]").problems == ("ruff", "mypy")
    (found,) = mistakes("jobs: {a: {run: x, problems: [gcc, ruf]}}")
    assert 'there is no problem matcher "ruf"' in found
    assert "ruff" in found


def test_folders_are_kept_with_or_without_a_name():
    assert job("run: x, keep: node_modules").keep == {"node_modules": ""}
    assert job("run: x, keep: [~/.cache/pip, a/b/]").keep == {"~/.cache/pip": "", "a/b": ""}
    assert job("run: x, keep: {~/.cache/pip: pip, a: }").keep == {"~/.cache/pip": "pip", "a": ""}


@pytest.mark.parametrize(
    ("keep", "mistake"),
    [
        ("/etc", 'expected a folder of the workspace, or one of root\'s home as ~/.cache/pip, got "/etc"'),
        ("[a/../b]", "expected a folder of the workspace"),
        ("['~/']", "expected a folder of the workspace"),
        ("['~//etc']", "expected a folder of the workspace"),
        ("[a, a]", "a folder stands in it twice"),
        ("[]", "expected at least one"),
        ("[a, b, c, d, e, f, g, h, i, j, k]", "expected at most 10"),
        ("{a: Not a name}", "expected a name of a-z, 0-9 and -"),
        ("['${{ build.branch }}']", "names in text are not replaced here"),
        ("[{a: b}]", "expected folders"),
    ],
)
def test_a_mistake_of_folders_to_keep_is_told(keep: str, mistake: str):
    found = mistakes(f"jobs: {{a: {{run: x, keep: {keep}}}}}")
    assert any(mistake in each for each in found), found


def test_defaults_fill_what_a_job_leaves_out():
    text = """
    env: {A: pipeline, B: pipeline, C: pipeline}
    defaults: {image: debian:12, env: {B: defaults, C: defaults}, retry: 2, soft_fail: true}
    jobs:
      a: {run: x, env: {C: job}, soft_fail: false}
      b: {run: x, from: a, retry: 0}
    """
    a, b = plan(text).jobs
    assert (a.image, a.env, a.retry_policy, a.soft_fail_policy) == (
        "debian:12",
        {"A": "pipeline", "B": "defaults", "C": "job"},
        {"limit": 2},
        None,
    )
    assert (b.image, b.env["C"], b.retry_policy) == ("debian:12", "defaults", {"limit": 0})


def test_a_command_runs_in_its_folder_and_shell():
    assert job("run: make, working_directory: sub dir").command == "cd 'sub dir'\nmake"
    assert job("run: make, working_directory: -x").command == "cd ./-x\nmake"
    assert job("run: 'print(1)', shell: [python3, -c]").command == "exec python3 -c 'print(1)'"


def test_the_key_of_a_cache_is_made_of_all_that_its_policy_names():
    def key(policy: str, files: dict[str, str] | None = None, now: float = 0) -> str:
        document = declared(f"jobs: {{a: {{run: x, cache: {policy}}}}}", files, now)["definition"]
        return load(json.dumps(document), IrSettings()).jobs[0].cache_key or ""

    lock = {"uv.lock": "1", "src/a.c": "2"}
    keys = [
        key("true"),
        key("{key: v2}"),
        key("{days: 1}"),
        key("{days: 1}", now=86_400),
        key("{days: 2}"),
        key("{files: uv.lock}", lock),
        key("{files: uv.lock}", {**lock, "uv.lock": "3"}),
        key("{files: [uv.lock, src]}", lock),
        key("{files: uv.lock, days: 1}", lock),
    ]
    assert len(set(keys)) == len(keys)
    assert key("{days: 2}") == key("{days: 2}", now=86_400)
    assert key("{files: uv.lock}", lock) == key("{files: uv.lock}", {**lock, "src/a.c": "9"})


def test_triggers_are_those_of_the_engine():
    text = """
    name: The CI
    on:
      push: {branches: [main, "release/*"], paths: src}
      pull_request:
      tag: v*
      schedule: [{cron: 30 4 * * 1-5, timezone: Europe/Berlin}, {cron: 0 4 1 * *}]
      pipeline: {slug: acme/base-image, state: failed, inputs: {v: outputs.a.b.V, w: inputs.w-x}}
      manual: {inputs: {v: {}, w: {}}}
    jobs: {a: {run: x}}
    """
    entry = declared(text)
    assert (entry["slug"], entry["name"], entry["allow_manual"]) == ("ci", "The CI", True)
    assert entry["file"] == ".hm/ci.yml"
    assert entry["triggers"] == [
        {"event": "push", "branches": ["main", "release/*"], "paths": ["src"]},
        {"event": "push", "tags": ["v*"]},
        {"event": "pull_request"},
        {"event": "schedule", "cron": "30 4 * * 1-5", "timezone": "Europe/Berlin"},
        {"event": "schedule", "cron": "0 4 1 * *"},
        {
            "event": "pipeline",
            "slug": "acme/base-image",
            "state": "failed",
            "inputs": {"v": "outputs.a.b.V", "w": "inputs.w-x"},
        },
    ]
    assert not declared("{on: {manual: false}, jobs: {a: {run: x}}}")["allow_manual"]
    assert declared("{slug: other, on: {push: true}, jobs: {a: {run: x}}}")["triggers"] == [
        {"event": "push", "branches": ["*"]}
    ]


@pytest.mark.parametrize(
    ("keys", "limits", "message"),
    [
        ("run: x, cpu: 17", {}, "jobs.a.cpu: expected at most 16"),
        ("run: x, memory: 65GB", {}, "jobs.a.memory: expected at most 64GB"),
        (
            "run: x, memory: 2GB, services: {b: {image: x, memory: 63GB}}",
            {},
            "jobs.a.services: expected at most 64GB of memory with the job's",
        ),
        ("run: xx", {"max_command_bytes": 1}, "jobs.a.run: expected at most 1 bytes"),
        ("run: x, env: {A: b}", {"max_env_bytes": 1}, "jobs.a.env: expected at most 1 bytes of names and values"),
        ("run: x, matrix: {a: [1, 2]}", {"max_jobs": 1}, "jobs: expected at most 1 jobs"),
        ("run: x, matrix: {a: [x y, x/y]}", {}, 'jobs.a: two jobs have the key "a-x-y", as the matrix makes them'),
        (
            "run: x, image: 'a${{ matrix.a }}', matrix: {a: ['b c']}",
            {},
            'jobs.a.image: expected the name of an image, got "ab c"',
        ),
    ],
)
def test_what_is_over_a_limit_is_refused(keys: str, limits: dict[str, int], message: str):
    with pytest.raises(IrError) as caught:
        plan(f"jobs: {{a: {{{keys}}}}}", limits=IrSettings(**limits))
    assert caught.value.message == message


def test_a_document_alone_needs_the_key_of_a_cache_by_files():
    document = {"version": "1", "jobs": {"a": {"run": "x", "cache": {"files": ["uv.lock"]}}}}
    with pytest.raises(IrError, match=r"jobs\.a\.cache: a document alone needs a \"key\""):
        load(json.dumps(document), IrSettings())
    document["jobs"]["a"]["cache"]["key"] = "k"  # type: ignore[index] # a document
    assert load(json.dumps(document), IrSettings()).jobs[0].cache_policy == "on_change"


def test_in_json_a_number_is_no_text():
    with pytest.raises(IrError) as caught:
        load('{"version": "1", "jobs": {"a": {"run": "x", "env": {"V": 3.10}, "cpu": "2"}}}', IrSettings())
    assert [each.message for each in caught.value.faults] == [
        "jobs.a.env.V: expected text, got 3.1",
        'jobs.a.cpu: expected a whole number, got "2"',
    ]


def refusal_of(document: dict[str, object]) -> str:
    with pytest.raises(IrError) as caught:
        load(json.dumps({"version": "1", **document}), IrSettings())
    return caught.value.message


def test_a_document_that_grows_very_much_is_refused_soon():
    """It comes from strangers, and is planned by a thread of the service."""
    numbers = list(map(str, range(40)))
    many = {f"j{each}": {"run": "x", "matrix": {"a": numbers, "b": numbers}} for each in range(1000)}
    assert refusal_of({"jobs": many}) == "jobs: expected at most 10000 combinations of all matrices together"
    names = {"run": "${{ matrix.a }}" * 10_001, "matrix": {"a": ["x" * 255]}}
    assert refusal_of({"jobs": {"a": names}}) == "jobs.a.run: expected at most 10000 names in texts"
    long = {"run": "x" * 250_000, "matrix": {"a": numbers}}
    message = "jobs: expected at most 4194304 bytes of commands and env in all jobs together"
    assert refusal_of({"jobs": {"a": long}}) == message
    assert refusal_of({"jobs": {"a": {"run": "x", "needs": [1] * 100_001}}}) == "expected at most 100000 values"
    wrong = {"run": "x", "needs": [f"j{each}x" for each in range(90_000)]}
    assert refusal_of({"jobs": {**{each: {"run": "x"} for each in many}, "a": wrong}}).endswith("; and 95 more")
    assert refusal_of({"jobs": {"a": {"run": "x", "needs": [1] * 90_000}}}).endswith("; and 95 more")
    excluded = {"run": "x", "matrix": {"a": ["1"], "exclude": [{"a": "1"}] * 101}}
    assert refusal_of({"jobs": {"a": excluded}}) == "jobs.a.matrix.exclude: expected at most 100"


def test_very_long_chains_are_planned():
    jobs = {"j0": {"run": "x", "when": {"tag": "v*"}}}
    jobs |= {f"j{each}": {"run": "x", "from": f"j{each - 1}", "needs": [f"j{each - 1}"]} for each in range(1, 1000)}
    document = {"version": "1", "jobs": jobs}
    assert all(each.skipped for each in load(json.dumps(document), IrSettings(), Built("push", "main")).jobs)


def test_a_file_says_its_group_and_the_locks_of_its_jobs():
    text = """
    concurrency: {group: "ci {branch}", limit: 2, cancel: true}
    jobs: {a: {run: x, concurrency: {group: deploy}}, b: {run: x}}
    """
    found = plan(text)
    assert found.concurrency == Concurrency("ci {branch}", 2, cancels=True)
    assert [(each.lock, each.lock_limit) for each in found.jobs] == [("deploy", 1), (None, 1)]
    assert plan("jobs: {a: {run: x}}").concurrency is None
    assert plan("{concurrency: {group: g}, jobs: {a: {run: x}}}").concurrency == Concurrency("g")


def takes(text: str, built: Built | None = None) -> dict[str, str]:
    """Return whose workspace each job takes."""
    found = plan(text, built=built)
    keys = [each.step_key for each in found.jobs]
    return {
        each.step_key: keys[before.position] for each in found.jobs for before in each.depends_on if before.workspace
    }


def test_a_job_takes_the_workspace_of_one_that_shares():
    text = """
    jobs:
      a: {run: x, workspace: shared}
      other: {run: x}
      b: {run: x, needs: [a, other], workspace: shared}
      c: {run: x, from: b}
      d: {run: x, from: b, workspace: shared}
      e: {run: x, needs: [a, b, d], workspace: shared}
      f: {run: x, needs: [b, e]}
    """
    assert takes(text) == {"b": "a", "e": "d"}
    assert needs(plan(text))["e"] == ["a", "b", "d"]


def test_a_workspace_of_another_name_begins_with_the_source():
    text = """
    jobs:
      a: {run: x, workspace: shared}
      b: {run: x, needs: a, workspace: shared-b}
      c: {run: x, needs: [a, b], workspace: shared-b}
      d: {run: x, needs: [a, c], workspace: shared}
    """
    assert takes(text) == {"c": "b", "d": "a"}


def test_a_workspace_goes_past_a_job_that_is_skipped():
    text = """
    defaults: {workspace: shared}
    jobs:
      a: {run: x}
      b: {run: x, from: a}
      c: {run: x, needs: b, when: {branch: main}}
      d: {run: x, needs: c}
    """
    assert takes(text, Built(event="push", branch="main")) == {"c": "b", "d": "c"}
    assert takes(text, Built(event="push", branch="dev")) == {"d": "b"}
    first = "{defaults: {workspace: shared}, jobs: {a: {run: x, when: {branch: main}}, b: {run: x, needs: a}}}"
    assert takes(first, Built(event="push", branch="dev")) == {}


def test_cells_take_one_workspace():
    text = "{defaults: {workspace: shared}, jobs: {a: {run: x}, b: {run: x, needs: a, matrix: {v: [1, 2]}}}}"
    assert takes(text) == {"b-1": "a", "b-2": "a"}


def test_whose_workspace_it_is_costs_little_of_a_thousand_jobs():
    chain = "".join(f"  j{n}: {{run: x, needs: [{f'j{n - 1}' if n else ''}]}}\n" for n in range(1000))
    text = f"defaults: {{workspace: shared}}\njobs:\n{chain}"
    assert len(takes(text)) == 999
    few = "".join(f"  j{n}: {{run: x, needs: [{', '.join(f'j{m}' for m in range(n))}]}}\n" for n in range(60))
    assert takes(f"defaults: {{workspace: shared}}\njobs:\n{few}")["j59"] == "j58"
