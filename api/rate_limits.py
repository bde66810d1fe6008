"""Rate limits where credentials are issued or tried (wire-decisions.md, "Everywhere")."""

from __future__ import annotations

from typing import TYPE_CHECKING

from api.addresses import Addresses
from api.buckets import Buckets
from api.errors import ApiError

if TYPE_CHECKING:
    from collections.abc import Iterable

    import falcon

    from api.buckets import Level
    from api.settings import RateLimitSettings
    from storage import Caller, Clock

__all__ = ["RateLimits"]


class RateLimits:
    """The limits by address, by account, and of bad tokens by address. Safe in any thread.

    A limited endpoint calls `of_address` first, and `of_account` once it knows the caller. A bad bearer token counts
    for its address on any endpoint: a flood of them is refused, while valid tokens from the same address still work.
    """

    def __init__(self, settings: RateLimitSettings, trusted_proxies: Iterable[str], clock: Clock) -> None:
        self._addresses = Addresses(trusted_proxies)
        self._by_address = Buckets(settings.address_per_minute, settings.tracked, clock)
        self._by_account = Buckets(settings.account_per_minute, settings.tracked, clock)
        self._failures = Buckets(settings.failures_per_minute, settings.tracked, clock)

    def of_address(self, req: falcon.Request, resp: falcon.Response) -> None:
        """Count a request for its address. Raises ApiError ``rate_limited``."""
        _admit(self._by_address.take(self._addresses.of(req)), "from this address", resp)

    def of_account(self, caller: Caller, resp: falcon.Response) -> None:
        """Count a request for its caller. Raises ApiError ``rate_limited``."""
        _admit(self._by_account.take(caller.user.uuid), "of this account", resp)

    def of_failure(self, req: falcon.Request) -> None:
        """Count a bad token for its address. Raises ApiError ``rate_limited``."""
        level = self._failures.take(self._addresses.of(req))
        if not level.granted:
            raise _too_many(level, "with bad tokens from this address")


def _admit(level: Level, whose: str, resp: falcon.Response) -> None:
    """Set the rate limit headers; of several limits, for the nearest. Raises ApiError ``rate_limited``."""
    if not level.granted:
        raise _too_many(level, whose)
    said = resp.get_header("RateLimit-Remaining")
    if said is None or level.left < int(said):
        resp.set_headers(_headers(level))


def _too_many(level: Level, whose: str) -> ApiError:
    return ApiError(
        "rate_limited",
        f"too many requests {whose}: at most {level.limit} a minute; try again in {level.retry_in} s",
        headers={**_headers(level), "Retry-After": str(level.retry_in)},
    )


def _headers(level: Level) -> dict[str, str]:
    return {
        "RateLimit-Limit": str(level.limit),
        "RateLimit-Remaining": str(level.left),
        "RateLimit-Reset": str(level.full_in),
    }
