"""A local payment provider, which answers as Stripe does and signs events as it documents."""

from __future__ import annotations

import hmac
import json
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from itertools import count
from typing import Any
from urllib.parse import parse_qsl

from api import PaymentSettings

SECRET_KEY = "sk_test_of_the_tests"
WEBHOOK_SECRET = "whsec_of_the_tests"


@dataclass
class Asked:
    """A request: its headers in lower case, and its form."""

    headers: dict[str, str]
    form: dict[str, str]


@dataclass
class Fault:
    """An answer in place of the right one.

    Without a ``status`` the connection is closed without an answer; with ``late``, when the provider closes. With
    ``slow`` the body comes byte by byte, each after a tenth of a second.
    """

    status: int | None = None
    body: bytes = b""
    late: bool = False
    slow: bool = False
    headers: Mapping[str, str] = field(default_factory=dict)


@dataclass
class LocalProvider:
    """The provider; ``faults`` are used up one by one before it answers rightly."""

    url: str = ""
    asked: list[Asked] = field(default_factory=list)
    faults: list[Fault] = field(default_factory=list)
    sessions: dict[str, dict[str, Any]] = field(default_factory=dict)
    over: threading.Event = field(default_factory=threading.Event)
    arrived: threading.Semaphore = field(default_factory=lambda: threading.Semaphore(0))
    _by_key: dict[str, tuple[dict[str, str], dict[str, Any]]] = field(default_factory=dict)
    _lock: threading.Lock = field(default_factory=threading.Lock)
    _numbers: Iterator[int] = field(default_factory=lambda: count(1))

    @classmethod
    @contextmanager
    def serving(cls) -> Iterator[LocalProvider]:
        """Serve on a free port of the loopback."""
        provider = cls()
        handler = type("Handler", (_Handler,), {"provider": provider})
        with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
            server.daemon_threads = False
            provider.url = f"http://127.0.0.1:{server.server_port}"
            thread = threading.Thread(target=server.serve_forever, args=(0.01,))
            thread.start()
            try:
                yield provider
            finally:
                provider.over.set()
                server.shutdown()
                thread.join()

    def settings(self, **others: Any) -> PaymentSettings:
        """Return the configuration of a service that uses this provider."""
        given = {"secret_key": SECRET_KEY, "webhook_secret": WEBHOOK_SECRET, "api_base": self.url, **others}
        return PaymentSettings(**given)

    def create(self, asked: Asked) -> tuple[int, dict[str, Any]]:
        """Create a session as `POST /v1/checkout/sessions` does; the same idempotency key gives the same one."""
        if asked.headers.get("authorization") != f"Bearer {SECRET_KEY}":
            return 401, {"error": {"type": "invalid_request_error", "message": "Invalid API Key provided"}}
        key = asked.headers["idempotency-key"]
        with self._lock:
            form, session = self._by_key.get(key, (asked.form, None))
            if form != asked.form:
                return 400, {"error": {"type": "idempotency_error", "message": "Keys are for the same request"}}
            if session is None:
                session = self._session(asked.form)
                self._by_key[key] = asked.form, session
            return 200, session

    def _session(self, form: dict[str, str]) -> dict[str, Any]:
        name = f"cs_test_{next(self._numbers)}"
        price = "line_items[0][price_data]"
        session = {
            "id": name,
            "object": "checkout.session",
            "mode": form["mode"],
            "amount_total": int(form[f"{price}[unit_amount]"]) * int(form["line_items[0][quantity]"]),
            "currency": form[f"{price}[currency]"],
            "metadata": {key[9:-1]: value for key, value in form.items() if key.startswith("metadata[")},
            "payment_intent": None,
            "payment_status": "unpaid",
            "status": "open",
            "url": f"{self.url}/pay/{name}",
        }
        self.sessions[name] = session
        return session

    def paid(self, session: str) -> dict[str, Any]:
        """Let a customer pay; return the session as events show it."""
        customer = {"email": "payer@example.org", "name": "A Payer", "address": {"city": "Town"}}
        self.sessions[session] |= {
            "payment_intent": f"pi_{session}",
            "payment_status": "paid",
            "status": "complete",
            "customer_details": customer,
            "url": None,
        }
        return self.sessions[session]


def event(name: str, kind: str, about: dict[str, Any], *, livemode: bool = False) -> bytes:
    """Return the body of an event, as the provider writes it."""
    document = {
        "id": name,
        "object": "event",
        "api_version": "2026-10-28.endive",
        "created": int(time.time()),
        "livemode": livemode,
        "type": kind,
        "data": {"object": about},
        "request": {"id": "req_1", "idempotency_key": "a-key"},
    }
    return json.dumps(document, indent=2).encode()


def signature(body: bytes, secret: str = WEBHOOK_SECRET, seconds_ago: int = 0) -> str:
    """Return the header that the provider sends with a body."""
    return signature_at(int(time.time()) - seconds_ago, body, secret)


def signature_at(moment: int, body: bytes, secret: str) -> str:
    """Return the header that the provider sends at a moment, in seconds since 1970."""
    return f"t={moment},v1={hmac.new(secret.encode(), b'%d.%s' % (moment, body), 'sha256').hexdigest()}"


def refund(name: str, cents: int, session: str, status: str = "succeeded") -> dict[str, Any]:
    """Return a refund of the payment of a session, as events show it."""
    return {
        "id": name,
        "object": "refund",
        "amount": cents,
        "charge": f"ch_{session}",
        "currency": "usd",
        "payment_intent": f"pi_{session}",
        "status": status,
    }


def charge(refunded_cents: int, session: str) -> dict[str, Any]:
    """Return the charge of a session's payment, as events show it."""
    return {
        "id": f"ch_{session}",
        "object": "charge",
        "amount_refunded": refunded_cents,
        "billing_details": {"email": "payer@example.org", "name": "A Payer"},
        "currency": "usd",
        "payment_intent": f"pi_{session}",
        "payment_method_details": {"card": {"last4": "4242"}},
    }


class _Handler(BaseHTTPRequestHandler):
    provider: LocalProvider

    def do_POST(self) -> None:
        form = self.rfile.read(int(self.headers["Content-Length"])).decode()
        asked = Asked({key.lower(): value for key, value in self.headers.items()}, dict(parse_qsl(form)))
        self.provider.asked.append(asked)
        self.provider.arrived.release()
        fault = self.provider.faults.pop(0) if self.provider.faults else None
        if fault is not None and fault.late:
            self.provider.over.wait(30)
        if fault is not None and fault.status is None:
            self.close_connection = True
            return
        if fault is not None and fault.status is not None:
            self._answer(fault.status, fault.body, fault)
        elif self.path != "/v1/checkout/sessions":
            self._answer(404, b'{"error": {"message": "unrecognized request"}}')
        else:
            status, document = self.provider.create(asked)
            self._answer(status, json.dumps(document).encode())

    def _answer(self, status: int, body: bytes, fault: Fault | None = None) -> None:
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.send_header("Request-Id", "req_of_the_tests")
        for name, value in (fault.headers if fault else {}).items():
            self.send_header(name, value)
        self.end_headers()
        with suppress(ConnectionError):  # the service has gone
            if fault is None or not fault.slow:
                self.wfile.write(body)
                return
            for byte in body:
                self.wfile.write(bytes([byte]))
                if self.provider.over.wait(0.1):
                    return

    def log_message(self, format: str, *arguments: Any) -> None:  # noqa: A002 - the name in the base class
        """Print nothing."""
