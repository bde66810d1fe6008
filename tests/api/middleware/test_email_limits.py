"""Limits of requests that name an e-mail address."""

from __future__ import annotations

import falcon
from falcon import testing

from api import RateLimitSettings
from api.errors.catalog import ApiError
from api.middleware.rate_limits import RateLimits
from tests.clock import ManualClock
from tests.reached import reached


def _limits(clock: ManualClock, **limits: int) -> RateLimits:
    return RateLimits(RateLimitSettings(**limits), (), clock)


def _ask(limits: RateLimits, email: str, address: str) -> bool:
    """Tell whether a request that names an e-mail address is admitted."""
    try:
        limits.limit_email(testing.create_req(remote_addr=address), falcon.Response(), email)
    except ApiError:
        return False
    return True


def test_an_email_address_is_limited_wherever_it_is_asked(clock: ManualClock):
    limits = _limits(clock, emails_per_minute=2)
    spellings = ("ada@example.org", " ADA@example.org ", "Ada@Example.org")
    asked = [_ask(limits, email, f"192.0.2.{number}") for number, email in enumerate(spellings)]
    assert asked == [True, True, False]
    assert _ask(limits, "bob@example.org", "192.0.2.9")
    clock.advance(30)
    assert _ask(limits, "ada@example.org", "192.0.2.9")


def test_an_address_asks_about_a_limited_number_of_emails(clock: ManualClock):
    limits = _limits(clock, emails_per_minute=2)
    assert [_ask(limits, f"u{number}@example.org", "192.0.2.1") for number in range(3)] == [True, True, False]
    assert _ask(limits, "u2@example.org", "192.0.2.2")


def test_no_email_address_is_remembered(clock: ManualClock):
    limits = _limits(clock)
    _ask(limits, "ada@example.org", "192.0.2.1")
    assert not [each for each in reached(limits) if isinstance(each, str) and "ada@" in each]
