"""Files that jobs take of others in their build."""

from __future__ import annotations

import json
from typing import Any

import pytest

from actors.builds.retrying import repetition
from storage import Build, NewPipeline, Pipeline
from tests.actors.conftest import Host
from tests.records import new_pipeline

pytestmark = pytest.mark.sandbox


def built(host: Host, **jobs: dict[str, Any]) -> Build:
    return host.finish(host.build(json.dumps({"version": "1", "jobs": jobs})))


def keeps(run: str, *globs: str, **keys: Any) -> dict[str, Any]:
    return {"run": run, "artifacts": list(globs), **keys}


def takes(run: str, globs: dict[str, list[str]], **keys: Any) -> dict[str, Any]:
    return {"run": run, "files": globs, **keys}


def failure(host: Host, build: Build, key: str) -> tuple[str | None, str | None]:
    job = host.job(build, key)
    return job.error_code, job.error_message


def test_files_are_laid_at_their_paths_with_their_modes(host: Host):
    make = "mkdir -p dist/sub; printf 'echo run' >dist/tool; chmod +x dist/tool; echo a >dist/sub/a; echo b >left"
    names = "echo o >'dist/two words'; echo q >dist/\\'quoted\\'; ln -s tool dist/link"
    build = built(
        host,
        package=keeps(f"{make}; {names}", "dist", "left"),
        use=takes("find . -type f -o -type l | sort; dist/tool; dist/link; cat dist/sub/a", {"package": ["dist/*"]}),
    )
    assert build.state == "passed", host.log(build, "use")
    assert host.log(build, "use").decode().splitlines() == [
        "files of package: 5 files, 22 bytes",
        "./dist/'quoted'",
        "./dist/link",
        "./dist/sub/a",
        "./dist/tool",
        "./dist/two words",
        "run",
        "run",
        "a",
    ]


def test_a_file_that_is_not_there_fails_the_job(host: Host):
    build = built(host, package=keeps("echo x >report", "*"), use=takes("true", {"package": ["dist/*.whl"]}))
    assert failure(host, build, "use") == (
        "files_missing",
        '"package" has kept no file that matches "dist/*.whl": it has kept report',
    )
    assert build.state == "failed"


def test_the_files_of_all_cells_are_taken(host: Host):
    cell = keeps("echo ${{ matrix.n }} >of-${{ matrix.n }}", "of-*", matrix={"n": ["1", "2"]})
    build = built(host, test=cell, use=takes("cat of-1 of-2", {"test": ["of-*"]}))
    assert host.log(build, "use") == b"files of test: 2 files, 4 bytes\n1\n2\n"


def test_two_files_at_one_path_are_an_error(host: Host):
    cell = keeps("echo ${{ matrix.n }} >report", "report", matrix={"n": ["1", "2"]})
    build = built(host, test=cell, use=takes("cat report", {"test": ["report"]}))
    why = '"test-1" and "test-2" have both kept "report": give them other names'
    assert failure(host, build, "use") == ("files_missing", why)


def test_a_skipped_producer_skips_what_takes_its_files(host: Host):
    build = built(
        host,
        base={"run": "true"},
        package=keeps("echo x >f", "f", needs=["base"], when={"status": "failed"}),
        use=takes("true", {"package": ["f"]}),
        after={"run": "true", "needs": ["use"]},
    )
    assert build.state == "passed"
    assert failure(host, build, "use") == ("nothing_failed", 'it takes the files of "package", which is skipped')
    assert host.job(build, "after").state == "passed"


def test_files_of_a_failed_job_are_taken_by_one_that_always_runs(host: Host):
    always = takes("cat f", {"test": ["f"]}, when={"status": "always"})
    build = built(host, test=keeps("echo x >f; exit 1", "f"), use=always, never=takes("true", {"test": ["f"]}))
    assert host.log(build, "use").endswith(b"x\n")
    assert host.job(build, "never").state == "skipped"


def test_files_are_part_of_the_name_of_a_cached_disk(host: Host):
    def use(content: str) -> bool:
        build = built(
            host,
            package=keeps(f"echo {content} >f", "f"),
            use=takes("cat f >g", {"package": ["f"]}, cache={}),
        )
        assert build.state == "passed"
        return host.job(build, "use").cache_hit

    assert [use("one"), use("one"), use("two"), use("one")] == [False, True, False, True]


def test_files_in_place_of_a_folder_are_an_error(host: Host):
    build = built(
        host,
        package=keeps("mkdir d; echo x >d/f; echo y >g", "d/f", "g"),
        base={"run": "mkdir -p g/h"},
        use=takes("true", {"package": ["*"]}, **{"from": "base"}),
    )
    code, message = failure(host, build, "use")
    assert code == "files_missing"
    assert message is not None
    assert "cannot be put into the workspace" in message


_COUNTING = "of those that the service started for the branch or an admin submitted"


@pytest.fixture
def base(host: Host) -> Pipeline:
    """Another pipeline of the organization."""
    new = NewPipeline("base-image", "Base image", "https://example.org/a/base.git", "main")
    return host.storage.pipelines.create(host.pipeline.organization_id, new)


def built_by(host: Host, pipeline: Pipeline, text: str, end: str = "true", **fields: Any) -> Build:
    """Build main of a pipeline, as after a push; its job keeps a file."""
    fields = {"verified_ref": "refs/heads/main"} | fields
    jobs = {"package": keeps(f"mkdir dist; echo {text} >dist/f; {end}", "dist/*")}
    return host.finish(host.build(json.dumps({"version": "1", "jobs": jobs}), pipeline, **fields))


def takes_of(run: str, source: str = "base-image", job: str = "package", **keys: Any) -> dict[str, Any]:
    return {"run": run, "files_of": {source: {job: ["dist/*"]}}, **keys}


def test_files_of_the_last_passed_build_are_laid(host: Host, base: Pipeline):
    built_by(host, base, "passed")
    built_by(host, base, "failed", "exit 1")
    built_by(host, base, "forked", from_fork=True)
    built_by(host, base, "claimed", verified_ref=None)
    built_by(host, base, "of a pull request", verified_ref="refs/pull/1/head")
    own = keeps("echo own >o", "o")
    build = built(host, own=own, use=takes_of("cat o dist/f", files={"own": ["o"]}))
    assert host.log(build, "use").decode().splitlines() == [
        "files of own: 1 file, 4 bytes",
        "files of package from build ada-example-org/base-image/1: 1 file, 7 bytes",
        "own",
        "passed",
    ]


def test_a_pipeline_of_the_same_repository_comes_first(host: Host, base: Pipeline):
    new = NewPipeline("demo-base", "Base", host.pipeline.repository, "main", source_slug="base-image")
    built_by(host, base, "other")
    built_by(host, host.storage.pipelines.create(base.organization_id, new), "beside")
    assert host.log(built(host, use=takes_of("cat dist/f")), "use").endswith(b"\nbeside\n")


def test_files_of_the_build_that_is_followed_are_laid(host: Host, base: Pipeline):
    """Also if it failed, and newer ones passed; a rebuild has them, too."""
    followed = built_by(host, base, "followed", "exit 1")
    built_by(host, base, "newer")
    document = json.dumps({"version": "1", "jobs": {"use": takes_of("cat dist/f")}})
    first = host.finish(host.build(document, upstream_id=followed.id))
    assert host.log(first, "use").endswith(b"\nfollowed\n")
    new, _ = repetition(host.storage, first, "api")
    assert new.upstream_id == followed.id
    claimed = built_by(host, base, "claimed", verified_ref=None)
    code, message = failure(host, host.finish(host.build(document, upstream_id=claimed.id)), "use")
    assert (code, "has verified: files of such a build are not taken" in str(message)) == ("files_missing", True)


def test_files_of_another_organization_are_taken_where_it_may(host: Host, base: Pipeline):
    other = new_pipeline(host.storage, "Others", "eve@example.org")
    source = f"{built_by(host, base, 'theirs').organization_slug}/base-image"
    document = json.dumps({"version": "1", "jobs": {"use": takes_of("cat dist/f", source)}})
    for _ in range(2):
        refused = failure(host, host.finish(host.build(document, other)), "use")
        assert refused == ("files_missing", f'there is no pipeline "{source}" in others to take files of')
        host.storage.pipelines.update(base.id, followers=("others",))
        assert host.log(host.finish(host.build(document, other)), "use").endswith(b"\ntheirs\n")
        host.storage.pipelines.update(base.id, followers=())


def test_a_retry_takes_files_of_the_same_build(host: Host, base: Pipeline):
    built_by(host, base, "first")
    build = built(host, use=takes_of("cat dist/f; exit 1"))
    built_by(host, base, "second")
    host.engine.jobs_added(host.retry(build).id)
    host.finish(build)
    assert host.log(build, "use").count(b"from build ada-example-org/base-image/1: 1 file, 6 bytes\nfirst\n") == 2
    assert b"second\n" in host.log(built(host, use=takes_of("cat dist/f")), "use")


@pytest.mark.parametrize(
    ("source", "job", "why"),
    [
        ("gone", "package", 'there is no pipeline "gone" in ada-example-org to take files of'),
        ("base-image", "other", 'ada-example-org/base-image/1 has no job "other"'),
        (
            "base-image@v2",
            "package",
            f'no build of ada-example-org/base-image on the branch "v2" has passed yet, {_COUNTING}',
        ),
    ],
)
def test_files_of_a_pipeline_that_are_not_there(host: Host, base: Pipeline, source: str, job: str, why: str):
    built_by(host, base, "x")
    build = built(host, use=takes_of("true", source, job))
    assert failure(host, build, "use") == ("files_missing", why)


def test_a_fork_gets_public_artifacts_alone(host: Host, base: Pipeline):
    built_by(host, base, "ours")
    document = json.dumps({"version": "1", "jobs": {"use": takes_of("cat dist/f")}})
    fork: dict[str, Any] = {"untrusted_origin": "evil/demo#1", "from_fork": True}
    build = host.finish(host.build(document, **fork))
    code, message = failure(host, build, "use")
    assert (code, b"ours" in host.log(build, "use")) == ("files_missing", False)
    assert message == (
        'it takes files of "base-image", which are for members: a fork\'s pull request gets public artifacts alone'
    )
    host.storage.pipelines.update(base.id, artifacts_public=True)
    assert host.log(host.finish(host.build(document, **fork)), "use").endswith(b"\nours\n")
