"""The configuration sections of the HTTP server and its rate limits, with their defaults."""

from __future__ import annotations

import re
from ipaddress import ip_network

from actors import FrontEnd
from storage import immutable, pattern, setting

_HIGHEST_PORT = 65535
_TOKEN = pattern(r"[A-Za-z0-9._~+/=-]{16,}", re.ASCII)
_URL = pattern(r"https?://[^\s/?#]+(?:/[^\s?#]*)?", re.IGNORECASE)
_PATH = pattern(r"/[A-Za-z0-9._~!$&'()*+,;=:@%/?-]*", re.ASCII)
_OF_BUILD = ("{org}", "{pipeline}", "{number}")
_CONSOLE = FrontEnd("")
_ORIGIN = pattern(r"https?://[^\s/?#*]+/?", re.IGNORECASE)
_THIS_HOST = pattern(r"http://(?:127\.0\.0\.1|0\.0\.0\.0|\[::1?\])(?=[:/]|$)", re.IGNORECASE)


@immutable
class HttpSettings:
    """Section ``[http]``: the address and the limits of the API.

    Log streams, waiting log requests and requests for builds that are being rendered each hold a thread while they
    last. At most ``max_streams`` of them run at once, and a quarter of those is reserved for builds; the other threads
    always serve short requests.
    """

    listen: str = setting(
        "127.0.0.1:8800",
        "The address to listen on, `HOST:PORT`; an IPv6 host is written in brackets, and port 0 is any free port.",
    )
    base_url: str | None = setting(
        None,
        "The address that callers use if a proxy stands in front of the service, without a trailing slash.",
        example="https://ci.example.org",
    )
    front_end_url: str | None = setting(
        None,
        "The address of another front end than the console, to which links in mails and at source hosts and the return"
        " from a payment lead, without a trailing slash.",
        example="https://app.example.org",
    )
    front_end_verify_path: str = setting(
        _CONSOLE.verify, "The front end's page that finishes a new account; the token follows a `#`."
    )
    front_end_recover_path: str = setting(
        _CONSOLE.recover, "The front end's page that signs in with a link; the token follows a `#`."
    )
    front_end_invite_path: str = setting(
        _CONSOLE.invite, "The front end's page that accepts an invite; the token follows a `#`."
    )
    front_end_paid_path: str = setting(_CONSOLE.paid, "The front end's page after a payment.")
    front_end_canceled_path: str = setting(_CONSOLE.canceled, "The front end's page after a payment was given up.")
    front_end_build_path: str = setting(
        _CONSOLE.build, "The front end's page of a build, named by `{org}`, `{pipeline}` and `{number}`."
    )
    threads: int = setting(192, "The number of threads that serve requests, more than `max_streams`.", at_least=2)
    max_streams: int = setting(
        160, "The most log streams, waiting log requests and waiting renders at once, fewer than `threads`.", at_least=1
    )
    max_streams_per_reader: int = setting(
        30, "The most logs that one account, or one address without an account, follows at once.", at_least=1
    )
    max_connections: int = setting(
        800,
        "The most connections: when they are nearly reached, those whose clients keep the service waiting longest are"
        " closed.",
        at_least=1,
    )
    max_body_bytes: int = setting(
        12 * 2**20,
        "The most bytes of a request that creates a build, because it may bring an archive, and of a source host's"
        " delivery; a body that sets a secret has at most 400 KiB, any other 64 KiB.",
        at_least=1,
    )
    max_header_bytes: int = setting(64 * 2**10, "The most bytes of the header of a request.", at_least=1)
    receive_timeout: float = setting(120.0, "The seconds within which a request must arrive.", at_least=1)
    idle_timeout: float = setting(120.0, "The seconds after which an idle connection is closed.", at_least=1)
    stop_timeout: float = setting(
        5.0, "The seconds that running requests have to finish when the service stops.", at_least=0
    )
    cors_origins: tuple[str, ...] = setting((), "The origins whose web pages may call the API.")
    trusted_proxies: tuple[str, ...] = setting((), "The addresses and networks whose `X-Forwarded-For` is believed.")
    metrics_token: str = setting(
        "", "The token to read `/metrics` from other hosts; if it is empty, only this host can read it.", secret=True
    )

    def __post_init__(self) -> None:
        if self.max_streams >= self.threads:
            raise ValueError(f"max_streams must be below threads ({self.threads}), not {self.max_streams}")
        host, _, port = self.listen.rpartition(":")
        if not host or not port.isascii() or not port.isdecimal() or int(port) > _HIGHEST_PORT:
            raise ValueError(f'listen must be HOST:PORT, for example "127.0.0.1:8800", not "{self.listen}"')
        if self.base_url is not None and not _URL.fullmatch(self.base_url):
            raise ValueError(f'base_url must be a URL such as "https://ci.example.org", not "{self.base_url}"')
        self._check_front_end()
        self._check_trust()

    def _check_front_end(self) -> None:
        if self.front_end_url is not None and not _URL.fullmatch(self.front_end_url):
            raise ValueError(
                f'front_end_url must be a URL such as "https://app.example.org", not "{self.front_end_url}"'
            )
        for name, path in self._front_end_paths().items():
            known = path
            for placeholder in _OF_BUILD if name == "build" else ():
                known = known.replace(placeholder, "x")
            if not _PATH.fullmatch(known):
                raise ValueError(
                    f'front_end_{name}_path must be a path such as "{getattr(_CONSOLE, name)}", not "{path}"'
                )

    def _front_end_paths(self) -> dict[str, str]:
        return {
            "verify": self.front_end_verify_path,
            "recover": self.front_end_recover_path,
            "invite": self.front_end_invite_path,
            "paid": self.front_end_paid_path,
            "canceled": self.front_end_canceled_path,
            "build": self.front_end_build_path,
        }

    def front_end(self, own_url: str) -> FrontEnd:
        """Return the pages that links lead to: the front end's, or the console's at the service's own address."""
        return FrontEnd((self.front_end_url or own_url).rstrip("/"), **self._front_end_paths())

    def _check_trust(self) -> None:
        if self.metrics_token and not _TOKEN.fullmatch(self.metrics_token):
            raise ValueError("metrics_token must be 16 or more of letters, digits and -._~+/=")
        for origin in self.cors_origins:
            if not _ORIGIN.fullmatch(origin):
                raise ValueError(f'cors_origins must be origins such as "https://app.example.org", not "{origin}"')
        for proxy in self.trusted_proxies:
            if not _is_network(proxy):
                raise ValueError(
                    f'trusted_proxies must be addresses or networks such as "10.0.0.7" or "10.0.0.0/24", not "{proxy}"'
                )

    @property
    def url(self) -> str:
        """The address of the service as callers use it, without a trailing slash."""
        return (self.base_url or f"http://{self.listen}").rstrip("/")

    @property
    def pages_url(self) -> str:
        """The address of the service as people open its pages, without a trailing slash."""
        return pages_url(self.url)


def pages_url(url: str) -> str:
    """Return the address at which people open the pages of the service at ``url``.

    On this host it is localhost: browsers use no passkeys at an IP address, and keep the cookies of both apart.
    """
    return _THIS_HOST.sub("http://localhost", url)


@immutable
class RateLimitSettings:
    """Section ``[rate_limits]``: limits per address and per account.

    The requests of a whole minute may come at once. Health checks are not limited. A command line that waits for a
    person to sign in asks once a second, so the default of ``address_per_minute`` allows 20 of them behind one address.
    """

    address_per_minute: int = setting(
        1200,
        "The most requests of one address to endpoints that issue or try credentials, and as many more without a token"
        " to public pages and records.",
        at_least=1,
    )
    account_per_minute: int = setting(
        60, "The most requests of one account to endpoints that issue or try credentials.", at_least=1
    )
    emails_per_minute: int = setting(
        30,
        "The most requests without an account that name an e-mail address, such as for a link to sign in: of one"
        " client, and for one e-mail address.",
        at_least=1,
    )
    failures_per_minute: int = setting(120, "The most bad tokens from one address, on any endpoint.", at_least=1)
    tracked: int = setting(10_000, "The number of addresses, and of accounts, that are remembered.", at_least=1)
    invites_per_day: int = setting(100, "The most invites that one account sends in a day.", at_least=1)
    organizations_per_account: int = setting(50, "The most organizations that one account owns.", at_least=1)


def _is_network(text: str) -> bool:
    try:
        ip_network(text)
    except ValueError:
        return False
    return True
