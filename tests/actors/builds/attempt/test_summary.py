"""Summaries: the Markdown that jobs write to ``$CI_SUMMARY``."""

from __future__ import annotations

import json
from typing import Any

import pytest

from actors.builds.attempt.told import MAX_BYTES, written_summary
from storage import Build, Masker
from tests.actors.conftest import Host

SECRET = "a-secret-value"
MASKER = Masker.hiding([SECRET])


def test_secrets_and_controls_are_not_in_a_summary():
    content = f"# Done\n\x1b[31mis {SECRET}\x00\n\tx\r\n".encode() + b"\xff"
    assert written_summary(content, len(content), MASKER) == (
        "# Done\n[31mis ***\n\tx\n\N{REPLACEMENT CHARACTER}",
        False,
    )


@pytest.mark.parametrize("cut", range(1, len(SECRET)))
def test_a_long_summary_ends_before_what_may_be_a_secret(cut: int):
    content = f"one\ntwo {SECRET[:cut]}".encode()
    assert written_summary(content, 1 << 20, MASKER) == ("one\n", True)


def built(host: Host, **jobs: dict[str, Any]) -> Build:
    return host.finish(host.build(json.dumps({"version": "1", "jobs": jobs})))


def texts(host: Host, build: Build) -> dict[str, str]:
    page = host.storage.told.summaries(build.id, 100)
    return {row.job_name: row.text for row in page.rows}


@pytest.mark.sandbox
def test_the_summaries_of_jobs_are_kept_passed_or_failed(host: Host):
    build = built(
        host,
        one={"run": "echo '# One' >>$CI_SUMMARY"},
        two={"from": "one", "run": "cat $CI_SUMMARY; echo '# Two' >>$CI_SUMMARY; exit 1"},
        none={"run": "true"},
    )
    assert texts(host, build) == {"one": "# One\n", "two": "# Two\n"}


@pytest.mark.sandbox
def test_the_beginning_of_a_long_summary_is_kept(host: Host):
    build = built(host, only={"run": f"yes 1234567 | head -n {MAX_BYTES // 8 + 1} >$CI_SUMMARY"})
    assert texts(host, build) == {"only": "1234567\n" * (MAX_BYTES // 8)}
    assert host.log(build) == b"the summary has 65,544 bytes, of which the first 65,536 are kept\n"


@pytest.mark.sandbox
def test_a_second_attempt_begins_without_a_summary(host: Host):
    run = "test $CI_ATTEMPT = 2 && exit; echo first >$CI_SUMMARY; exit 1"
    assert texts(host, built(host, only={"run": run, "retry": {"limit": 1}})) == {}


@pytest.mark.sandbox
def test_a_cache_hit_has_the_summary_of_the_disks_job(host: Host):
    jobs = {"only": {"run": "echo kept >$CI_SUMMARY", "cache": True}}
    built(host, **jobs)
    build = built(host, **jobs)
    assert host.job(build).cache_hit
    assert texts(host, build) == {"only": "kept\n"}
