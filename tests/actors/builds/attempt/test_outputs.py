"""Outputs: what a job writes to ``$CI_OUTPUT`` is a variable of the jobs that need it."""

from __future__ import annotations

import json
from typing import Any

import pytest

from actors.builds.attempt.told import MAX_BYTES, WrittenOutputs, variables_of, written_outputs
from storage import Build, GivenOutputs, Masker
from tests.actors.conftest import Host

SECRET = "a-secret-value"


def written(content: bytes, *, size: int | None = None) -> WrittenOutputs:
    return written_outputs(content, len(content) if size is None else size, Masker.hiding([SECRET]))


def test_each_line_is_a_variable_and_the_last_of_a_name_counts():
    found = written(b"A=1\n\nB= two = 2 \nA=3\nEMPTY=\n_x9=\xc3\xa9\t\x1b[1m")
    assert found == WrittenOutputs({"A": "3", "B": " two = 2 ", "EMPTY": "", "_x9": "é\t\x1b[1m"}, ())
    assert found.error is None


@pytest.mark.parametrize(
    ("line", "why"),
    [
        (b"just text", "line 2 is not NAME=value"),
        (b"=x", "line 2 is not NAME=value"),
        (b"A B=x", "line 2 is not NAME=value"),
        (b"9=x", "line 2 is not NAME=value"),
        ("É=x".encode(), "line 2 is not NAME=value"),
        (b"A" * 101 + b"=x", "line 2 is not NAME=value"),
        (b"CI=false", "CI is a name of the service's own"),
        (b"CI_COMMIT=x", "CI_COMMIT is a name of the service's own"),
        (b"A=a\0b", "A has a value that is no text in UTF-8"),
        (b"A=\xff", "A has a value that is no text in UTF-8"),
        (f"A=is {SECRET}".encode(), "A has a secret in it"),
    ],
)
def test_what_is_no_variable_is_said_and_the_rest_is_kept(line: bytes, why: str):
    found = written(b"GOOD=1\n" + line)
    assert found == WrittenOutputs({"GOOD": "1"}, (why,))
    assert found.error == f"$CI_OUTPUT cannot be used: {why}"


def test_outputs_are_bounded_in_bytes_and_number():
    most = f"it has {MAX_BYTES + 1:,} bytes of at most {MAX_BYTES:,}: give large values as artifacts"
    assert written(b"A=1\n", size=MAX_BYTES + 1) == WrittenOutputs({}, (most,))
    assert len(written("".join(f"N{number}=x\n" for number in range(100)).encode()).variables) == 100
    too_many = written("".join(f"N{number}=x\n" for number in range(101)).encode())
    assert too_many == WrittenOutputs({}, ("it has 101 names of at most 100",))
    long = written(b"x\n" * 9).error
    assert long is not None
    assert long.endswith("line 5 is not NAME=value; and 4 more")


def test_the_later_of_two_jobs_counts_and_the_log_says_so():
    given = [GivenOutputs(0, "a", {"V": "1", "W": "same"}), GivenOutputs(1, "b", {"V": "2", "W": "same"})]
    assert variables_of(given) == (
        {"V": "2", "W": "same"},
        ['V is the output of "b": "a" gives another value'],
    )


def built(host: Host, **jobs: dict[str, Any]) -> Build:
    return host.finish(host.build(json.dumps({"version": "1", "jobs": jobs})))


def lines(host: Host, build: Build, key: str) -> list[str]:
    return host.log(build, key).decode().splitlines()


GIVE = 'echo "VERSION=1.2 rc" >>$CI_OUTPUT; echo EMPTY= >>$CI_OUTPUT'
SHOW = 'echo "<$VERSION>"'


@pytest.mark.sandbox
def test_outputs_are_variables_of_the_jobs_that_need_them(host: Host):
    build = built(
        host,
        make={"run": GIVE},
        use={"needs": ["make"], "run": f'{SHOW}; test "${{EMPTY-unset}}" = "" && wc -c <$CI_OUTPUT'},
        child={"from": "make", "run": f"{SHOW}; wc -c <$CI_OUTPUT"},
        later={"needs": ["use"], "run": SHOW},
        own={"needs": ["make"], "env": {"VERSION": "mine"}, "run": SHOW},
        apart={"run": SHOW},
    )
    assert build.state == "passed"
    assert lines(host, build, "make") == ["outputs: VERSION, EMPTY"]
    assert lines(host, build, "use") == ["<1.2 rc>", "0"]
    assert lines(host, build, "child") == ["<1.2 rc>", "0"]
    assert lines(host, build, "later") == ["<>"]
    assert lines(host, build, "own") == ["<mine>"]
    assert lines(host, build, "apart") == ["<>"]
    assert host.storage.told.outputs(host.job(build, "use").id) is None


@pytest.mark.sandbox
def test_another_user_of_the_job_may_write_outputs(host: Host):
    build = built(host, make={"run": "setpriv --reuid 1000 --clear-groups sh -c 'echo V=1 >>$CI_OUTPUT'"})
    assert lines(host, build, "make") == ["outputs: V"]


@pytest.mark.sandbox
def test_a_job_with_invalid_outputs_does_not_pass(host: Host):
    build = built(host, make={"run": "echo nonsense >$CI_OUTPUT"}, use={"needs": ["make"], "run": "true"})
    job = host.job(build, "make")
    assert (job.state, job.exit_code, job.error_code) == ("failed", 0, "outputs_invalid")
    assert job.error_message == "$CI_OUTPUT cannot be used: line 1 is not NAME=value"
    assert host.job(build, "use").state == "skipped"


@pytest.mark.sandbox
def test_a_failed_job_gives_what_it_wrote(host: Host):
    build = built(
        host,
        make={"run": "echo WHY=broken >$CI_OUTPUT; exit 3"},
        tell={"needs": ["make"], "when": {"status": "failed"}, "run": "echo $WHY"},
    )
    assert host.job(build, "make").error_code is None
    assert lines(host, build, "tell") == ["broken"]


@pytest.mark.sandbox
@pytest.mark.parametrize(
    "place",
    [
        "ln -sf /etc/passwd $CI_OUTPUT",
        "rm $CI_OUTPUT; mkfifo $CI_OUTPUT",
        "rm $CI_OUTPUT; mkdir $CI_OUTPUT",
        "rm $CI_OUTPUT",
        "umount -l /run; mkdir -p /run/ci; echo V=1 >/run/ci/output",
        "mount -t tmpfs none /run/ci; echo V=1 >/run/ci/output",
        "echo V=1 >f; mount --bind f $CI_OUTPUT",
    ],
)
def test_what_is_no_file_in_its_place_gives_nothing(host: Host, place: str):
    build = built(host, make={"run": place}, use={"needs": ["make"], "run": "echo ok$V"})
    assert (build.state, lines(host, build, "make"), lines(host, build, "use")) == ("passed", [], ["ok"])


@pytest.mark.sandbox
def test_a_large_file_of_outputs_is_read_to_its_bound(host: Host):
    build = built(host, make={"run": "echo V=1 >$CI_OUTPUT; truncate -s 1G $CI_OUTPUT"})
    assert host.job(build, "make").error_message == (
        "$CI_OUTPUT cannot be used: it has 1,073,741,824 bytes of at most 65,536: give large values as artifacts"
    )


@pytest.mark.sandbox
def test_a_second_attempt_begins_without_outputs(host: Host):
    run = "cat $CI_OUTPUT; test $CI_ATTEMPT = 2 && exit; echo V=1 >$CI_OUTPUT; exit 1"
    build = built(host, make={"run": run, "retry": {"limit": 1}}, use={"needs": ["make"], "run": "echo ok$V"})
    assert (build.state, lines(host, build, "use")) == ("passed", ["ok"])


@pytest.mark.sandbox
def test_a_retried_build_gives_the_outputs_of_its_last_run(host: Host):
    build = built(
        host,
        make={"run": "echo V=kept >$CI_OUTPUT"},
        use={"needs": ["make"], "run": "echo $V; echo W=$CI_ATTEMPT >$CI_OUTPUT; test $CI_ATTEMPT = 2"},
        last={"needs": ["use"], "run": "echo $W"},
    )
    assert build.state == "failed"
    host.retry(build)
    host.engine.jobs_added(build.id)
    assert host.finish(build).state == "passed"
    assert lines(host, build, "use")[-2:] == ["kept", "outputs: W"]
    assert lines(host, build, "last") == ["2"]


@pytest.mark.sandbox
def test_an_output_is_part_of_a_cached_disks_name(host: Host):
    def passed(version: str) -> Build:
        make = {"run": f"echo V={version} >$CI_OUTPUT"}
        return built(host, make=make, use={"from": "make", "run": "echo $V; echo W=$V >$CI_OUTPUT", "cache": True})

    first, second, other = passed("1"), passed("1"), passed("2")
    assert [host.job(build, "use").cache_hit for build in (first, second, other)] == [False, True, False]
    assert [host.storage.told.outputs(host.job(build, "use").id) is not None for build in (second, other)] == [
        True,
        True,
    ]


@pytest.mark.sandbox
def test_a_cache_hit_gives_the_outputs_of_the_disks_job(host: Host):
    jobs = {
        "make": {"run": "echo V=cached >$CI_OUTPUT; echo run", "cache": True},
        "use": {"needs": ["make"], "run": "echo $V"},
    }
    built(host, **jobs)
    build = built(host, **jobs)
    assert host.job(build, "make").cache_hit
    assert lines(host, build, "use") == ["cached"]


@pytest.mark.sandbox
def test_outputs_are_asked_for_after_a_restart(host: Host):
    """The command ends while no engine runs, or later: the VM keeps what it has written."""
    make = {"run": "echo begun; sleep 1; echo V=1 >$CI_OUTPUT"}
    build = host.build(
        json.dumps({"version": "1", "jobs": {"make": make, "use": {"needs": ["make"], "run": "echo $V"}}})
    )
    host.says(build, b"begun", "make")
    host.restart()
    assert host.finish(build).state == "passed"
    assert (lines(host, build, "make"), lines(host, build, "use")) == (["begun", "outputs: V"], ["1"])
