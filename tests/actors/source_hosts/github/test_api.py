"""GitHub's API on a bad day: revoked and expired tokens, rate limits, failures and silence."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pytest

from actors.source_hosts import Github, GithubApi, GithubAppSettings
from actors.source_hosts.host import HostError
from tests.actors.source_hosts.github.conftest import App
from tests.clock import ManualClock
from tests.github_server import APP_ID, WEBHOOK_SECRET, Fault, GithubServer, reset_at

TOKENS = "POST /app/installations/7/access_tokens"


def tokens_made(app: App) -> int:
    return app.server.asked.count(TOKENS)


def test_a_token_is_kept_until_shortly_before_it_expires(app: App, clock: ManualClock):
    for _ in range(3):
        list(app.api.repositories("7"))
    assert tokens_made(app) == 1
    clock.advance(minutes=51)
    app.server.ahead = timedelta(minutes=51)
    list(app.api.repositories("7"))
    assert tokens_made(app) == 2


@pytest.mark.parametrize("ahead", [timedelta(days=-1), timedelta(minutes=-5), timedelta(minutes=9), timedelta(days=1)])
def test_a_clock_that_differs_from_githubs_is_corrected(app: App, clock: ManualClock, ahead: timedelta):
    app.server.ahead = ahead
    for _ in range(3):
        assert len(list(app.api.repositories("7"))) == 1
    assert tokens_made(app) <= 2, "only the first may be refused"
    made = tokens_made(app)
    clock.advance(minutes=51)
    app.server.ahead += timedelta(minutes=51)
    list(app.api.repositories("7"))
    assert tokens_made(app) == made + 1
    app.server.faults = [Fault(403, reset_at(app.server.now + timedelta(minutes=30)))]
    with pytest.raises(HostError) as error:
        list(app.api.repositories("7"))
    assert error.value.retry_after == pytest.approx(1800, abs=10)
    clock.advance(minutes=31)
    assert len(list(app.api.repositories("7"))) == 1


def test_a_revoked_token_is_replaced_once(app: App):
    list(app.api.repositories("7"))
    app.server.tokens.clear()
    list(app.api.repositories("7"))
    assert tokens_made(app) == 2
    app.server.faults = [Fault(401), Fault(401)]
    with pytest.raises(HostError):
        list(app.api.repositories("7"))


def test_a_fetch_gets_a_token_for_its_repository_alone(app: App):
    app.server.installations[7].repositories[0]["private"] = True
    app.bound()
    credential = app.host.credential(app.repositories()[0])
    assert credential is not None
    assert credential.username == "x-access-token"
    assert app.server.tokens[credential.password] == (
        7, {"permissions": {"contents": "read"}, "repository_ids": [701]},
    )  # fmt: skip
    assert credential.password not in repr(credential)


def test_a_token_that_a_fetch_was_refused_with_is_kept_no_longer(app: App):
    app.server.installations[7].repositories[0]["private"] = True
    app.bound()
    (repository,) = app.repositories()
    first = app.host.credential(repository)
    assert app.host.credential(repository) == first
    assert app.host.renew_credential(repository)
    assert app.host.credential(repository) != first


@pytest.mark.parametrize("status", [403, 429])
def test_a_rate_limit_is_waited_for_without_another_request(app: App, clock: ManualClock, status: int):
    app.bound()
    app.server.faults = [Fault(status, {"Retry-After": "60"})]
    for seconds in (60, 59):
        with pytest.raises(HostError, match="rate limit") as error:
            list(app.api.repositories("7"))
        assert error.value.retry_after == pytest.approx(seconds)
        clock.advance(1)
    asked = len(app.server.asked)
    with pytest.raises(HostError):
        list(app.api.repositories("7"))
    assert len(app.server.asked) == asked
    clock.advance(60)
    assert len(list(app.api.repositories("7"))) == 1


def test_an_exhausted_limit_ends_at_its_reset(app: App):
    app.bound()
    app.server.faults = [Fault(403, reset_at(app.server.now + timedelta(minutes=30)))]
    with pytest.raises(HostError) as error:
        list(app.api.repositories("7"))
    assert error.value.retry_after == pytest.approx(1800, abs=10)


@pytest.mark.parametrize(
    ("fault", "message"),
    [
        (Fault(500), "with 500: a fault of the test"),
        (Fault(502, message="x\x1b[31m\n"), "with 502"),
        (Fault(403, message="Resource not accessible by integration"), "not accessible"),
    ],
    ids=("500", "502", "403"),
)
def test_a_failure_is_told_and_not_final(app: App, fault: Fault, message: str):
    app.bound()
    app.server.faults = [fault]
    with pytest.raises(HostError, match=message) as error:
        list(app.api.repositories("7"))
    assert not error.value.final
    assert str(error.value).isprintable()


def test_silence_is_waited_for_only_so_long(app: App, clock: ManualClock, tmp_path: Path):
    impatient = replace(app.server.settings(tmp_path / "app.pem"), timeout=0.5)
    app.server.faults = [Fault(0)]
    with pytest.raises(HostError, match="GitHub does not answer in time") as error:
        list(GithubApi(impatient, clock).repositories("7"))
    assert not error.value.final


def test_an_answer_byte_by_byte_is_waited_for_only_so_long(app: App, clock: ManualClock, tmp_path: Path):
    """Each byte comes well within the time-out, but not the whole answer."""
    impatient = replace(app.server.settings(tmp_path / "app.pem"), timeout=0.5)
    app.server.faults = [Fault(200, message="x" * 100, slow=True)]
    with pytest.raises(HostError, match="GitHub does not answer in time"):
        list(GithubApi(impatient, clock).repositories("7"))


def test_an_answer_without_end_is_not_read(app: App):
    app.bound()
    app.server.faults = [Fault(200, message="x" * (16 * 2**20))]
    with pytest.raises(HostError, match="GitHub answers more than 16777216 bytes"):
        list(app.api.repositories("7"))


def test_a_repository_that_was_renamed_is_found(app: App):
    app.bound()
    app.server.faults = [Fault(301, {"Location": "/installation/repositories?per_page=100&page=1"})]
    assert len(list(app.api.repositories("7"))) == 1


def test_a_token_goes_to_no_other_host(app: App):
    app.bound()
    with GithubServer.serving() as elsewhere:
        app.server.faults = [Fault(302, {"Location": f"{elsewhere.url}/installation/repositories"})]
        with pytest.raises(HostError, match="redirects to another host") as error:
            list(app.api.repositories("7"))
        assert elsewhere.asked == []
    assert not error.value.final


def test_redirects_in_a_circle_end(app: App):
    app.bound()
    app.server.faults = [Fault(307, {"Location": "/installation/repositories"})] * 4
    with pytest.raises(HostError, match="too often"):
        list(app.api.repositories("7"))


@pytest.mark.parametrize(
    "headers",
    [
        {"Retry-After": "soon"},
        {"Retry-After": "9" * 30},
        {"X-RateLimit-Remaining": "0", "X-RateLimit-Reset": "9" * 30},
        {"X-RateLimit-Remaining": "0", "X-RateLimit-Reset": "never"},
        {"X-RateLimit-Remaining": "0"},
    ],
)
def test_a_pause_is_at_least_zero_and_at_most_an_hour(app: App, headers: dict[str, str]):
    app.bound()
    app.server.faults = [Fault(403, headers)]
    with pytest.raises(HostError, match="rate limit") as error:
        list(app.api.repositories("7"))
    assert error.value.retry_after in {60.0, 3600.0}


def test_a_suspended_installation_is_not_asked(app: App):
    app.bound()
    app.server.installations[7].suspended = True
    app.deliver("installation", action="suspend")
    asked = len(app.server.asked)
    with pytest.raises(HostError, match="suspended"):
        app.host.trusts(app.repositories()[0], "ada")
    assert len(app.server.asked) == asked


def test_who_may_push_is_trusted(app: App):
    app.bound()
    app.server.permissions = {"ada": "admin", "ben": "write", "eve": "read"}
    repository = app.repositories()[0]
    assert [app.host.trusts(repository, each) for each in ("ada", "ben", "eve", "nobody")] == [True, True, False, False]


@pytest.mark.parametrize("key", [None, "no key"])
def test_an_unusable_key_is_said(app: App, clock: ManualClock, key: str | None, tmp_path: Path):
    path = tmp_path / "wrong.pem"
    if key is not None:
        path.write_text(key)
    settings = GithubAppSettings(APP_ID, path, WEBHOOK_SECRET, app.server.url, app.server.url)
    host = Github(app.storage, settings, GithubApi(settings, clock))
    with pytest.raises(HostError, match="private key of the GitHub app cannot be used"):
        host.installations.bind(app.organization_id, 7, None)
