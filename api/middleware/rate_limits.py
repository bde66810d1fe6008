"""Rate limits where credentials are issued, tried or not needed (wire-decisions.md, "Everywhere")."""

from __future__ import annotations

import hashlib
import threading
from collections import OrderedDict
from math import ceil
from typing import TYPE_CHECKING, Any, assert_never

from api.errors.catalog import ApiError
from api.middleware.client_addresses import ClientAddresses
from storage import immutable

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    import falcon

    from api.openapi.operations import Operation, Routes
    from api.request import ApiRequest
    from api.settings import RateLimitSettings
    from storage import Caller, Clock, User


# Considered: `limits` counts in windows and has no token bucket; its memory storage takes any number of keys, and reads
# the system's clock, which may jump.

_MINUTE = 60.0


@immutable
class BucketState:
    """The state of a bucket after a request: ``limit`` when full, ``left`` now.

    ``granted`` tells whether the request may proceed. ``full_in`` and ``retry_in`` are the seconds until the bucket is
    full, and until it holds at least one.
    """

    granted: bool
    limit: int
    left: int
    full_in: int
    retry_in: int


class TokenBuckets:
    """A bucket for each key, full at first and refilled within a minute. Safe in any thread.

    Only the ``tracked`` keys that were used last are remembered, so that ever new keys do not use up memory.
    """

    def __init__(self, per_minute: int, tracked: int, clock: Clock) -> None:
        self._limit = per_minute
        self._tracked = tracked
        self._clock = clock
        self._lock = threading.Lock()
        self._held: OrderedDict[str, tuple[float, float]] = OrderedDict()
        """The content of each bucket and when it was computed, by key; the key used last is at the end."""

    def __len__(self) -> int:
        """Return the number of keys that are remembered."""
        return len(self._held)

    def take(self, key: str) -> BucketState:
        """Take one from the key's bucket unless it is empty; return the bucket's state."""
        with self._lock:
            now = self._clock.monotonic()
            held, at = self._held.pop(key, (float(self._limit), now))
            held = min(self._limit, held + (now - at) * self._limit / _MINUTE)
            granted = held >= 1
            held -= granted
            self._held[key] = held, now
            if len(self._held) > self._tracked:
                self._held.popitem(last=False)
        return BucketState(
            granted=granted,
            limit=self._limit,
            left=int(held),
            full_in=ceil((self._limit - held) * _MINUTE / self._limit),
            retry_in=0 if held >= 1 else ceil((1 - held) * _MINUTE / self._limit),
        )


class RateLimits:
    """The limits by address, by account, and of bad and missing tokens by address. Safe in any thread.

    A limited endpoint calls `limit_address` first, and `limit_account` once it knows the caller, or `limit_email` if
    there is none and the body names an e-mail address. A bad bearer
    token or log token counts for its address on any endpoint: a flood of them is refused, while valid tokens from the
    same address still work. Requests that need no token have buckets of their own, so that they keep nobody from
    signing in.
    """

    def __init__(self, settings: RateLimitSettings, trusted_proxies: Iterable[str], clock: Clock) -> None:
        self.addresses = ClientAddresses(trusted_proxies)
        self._by_address = TokenBuckets(settings.address_per_minute, settings.tracked, clock)
        self._without_token = TokenBuckets(settings.address_per_minute, settings.tracked, clock)
        self._by_account = TokenBuckets(settings.account_per_minute, settings.tracked, clock)
        self._by_email = TokenBuckets(settings.emails_per_minute, settings.tracked, clock)
        self._naming_emails = TokenBuckets(settings.emails_per_minute, settings.tracked, clock)
        self._failures = TokenBuckets(settings.failures_per_minute, settings.tracked, clock)

    def limit_address(self, req: falcon.Request, resp: falcon.Response) -> None:
        """Count a request for its address. Raises ApiError ``rate_limited``."""
        _admit(self._by_address.take(self.addresses.network(req)), "from this address", resp)

    def limit_public(self, req: falcon.Request, resp: falcon.Response) -> None:
        """Count a request that needs no token for its address. Raises ApiError ``rate_limited``."""
        _admit(self._without_token.take(self.addresses.network(req)), "without a token from this address", resp)

    def limit_account(self, caller: Caller, resp: falcon.Response) -> None:
        """Count a request for its caller. Raises ApiError ``rate_limited``."""
        self.limit_user(caller.user, resp)

    def limit_user(self, user: User, resp: falcon.Response) -> None:
        """Count a request for a user; those of an organization's machines count together. Raises ApiError."""
        account = user.personal_org_slug if user.machine else user.uuid
        _admit(self._by_account.take(account), "of this account", resp)

    def limit_email(self, req: falcon.Request, resp: falcon.Response, email: str) -> None:
        """Count a request that names an e-mail address, for that and for the client's address.

        It makes no difference whether an account has the e-mail address. Only its hash is remembered. Raises ApiError
        ``rate_limited``.
        """
        _admit(self._naming_emails.take(self.addresses.network(req)), "for e-mail from this address", resp)
        _admit(self._by_email.take(_hash_of(email)), "for this e-mail address", resp)

    def limit_failures(self, req: falcon.Request) -> None:
        """Count a bad token for its address. Raises ApiError ``rate_limited``."""
        level = self._failures.take(self.addresses.network(req))
        if not level.granted:
            raise _too_many(level, "with bad tokens from this address")


class PublicLimit:
    """Middleware that limits requests without a token where none is needed, by address.

    It finds the operation by route and method, and `Routes` accepts no responder without one. Pages have none: they are
    limited for browsers without a session, which ``has_session`` tells.
    """

    def __init__(self, limits: RateLimits, routes: Routes, has_session: Callable[[falcon.Request], bool]) -> None:
        self._limits = limits
        self._routes = routes
        self._has_session = has_session

    def process_resource(
        self, req: ApiRequest, resp: falcon.Response, resource: object, params: dict[str, Any]
    ) -> None:
        """Count the request. Raises ApiError ``rate_limited``."""
        operation = self._routes.operation(req.uri_template or "", req.method)
        public = operation.counted and _is_public(req, operation) if operation else not self._has_session(req)
        if public:
            self._limits.limit_public(req, resp)


def _hash_of(email: str) -> str:
    normal = email.strip().lower().encode("utf-8", "surrogatepass")
    return hashlib.sha256(normal).hexdigest()


def _is_public(req: ApiRequest, operation: Operation) -> bool:
    """Tell whether a request may be served without a token, and has none that will be checked."""
    match operation.security:
        case "public":
            return True
        case "optional":
            return req.auth is None
        case "log_token":
            return req.auth is None and req.get_param("token") is None
        case "bearer" | "metrics":
            return False
        case _:
            assert_never(operation.security)


def _admit(level: BucketState, scope: str, resp: falcon.Response) -> None:
    """Set the rate limit headers; of several limits, for the nearest. Raises ApiError ``rate_limited``."""
    if not level.granted:
        raise _too_many(level, scope)
    remaining = resp.get_header("RateLimit-Remaining")
    if remaining is None or level.left < int(remaining):
        resp.set_headers(_headers(level))


def _too_many(level: BucketState, scope: str) -> ApiError:
    return ApiError(
        "rate_limited",
        f"too many requests {scope}: at most {level.limit} a minute; try again in {level.retry_in} s",
        headers={**_headers(level), "Retry-After": str(level.retry_in)},
    )


def _headers(level: BucketState) -> dict[str, str]:
    return {
        "RateLimit-Limit": str(level.limit),
        "RateLimit-Remaining": str(level.left),
        "RateLimit-Reset": str(level.full_in),
    }
