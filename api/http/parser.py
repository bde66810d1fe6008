"""Parser of requests, hardened where waitress trusts clients too much.

Waitress asks for bodies that it has already refused, and drops the connection if an address or a length is invalid. It
parses in the server's loop, which all connections share: input that is cheap to send must not be expensive to parse.
"""

from __future__ import annotations

import re
import time

from waitress.parser import HTTPRequestParser, ParsingError
from waitress.receiver import ChunkedReceiver
from waitress.utilities import BadRequest, RequestEntityTooLarge, RequestHeaderFieldsTooLarge

# Considered: h11 parses as strictly, but waitress's connection drives waitress's parser by its attributes, so another
# parser would mean another server.

MAX_HEADERS = 500
"""The most header lines of a request."""

_SMALL_BODY = 64 * 2**10
"""The most bytes of a body without an archive, a secret, or a report of a source host."""

_SECRET_BODY = 400 * 2**10
"""The most bytes of a body that sets a secret: JSON may need six for each of the 64 KiB of its value."""

_OF_ORGANIZATION = r"/api/v0/organizations/[^/]+/(?:pipelines/[^/]+/)?"
_TAKES_ARCHIVE = re.compile(_OF_ORGANIZATION + r"builds/?")
_TAKES_SECRET = re.compile(_OF_ORGANIZATION + r"secrets/[^/]+/?")
_REPORTS = re.compile(r"/webhooks/[^/]+/?")

_MAX_CHUNK_LINE = 4096
_MAX_FRAMING = 8 * 2**10
_CHUNKED_BYTES = 4096
_REQUEST_ID = re.compile(rb"^x-request-id:[ \t]*([A-Za-z0-9._-]{20,200})[ \t]*\r$", re.IGNORECASE | re.MULTILINE)


class Parser(HTTPRequestParser):
    """Parses one request."""

    began: float | None = None
    path = ""

    def received(self, data: bytes) -> int:
        """Parse bytes; return how many of them belong to this request. Runs in the server's loop."""
        if self.began is None:
            self.began = time.monotonic()
            if not _may_begin_a_request(data):
                return self._refuse(
                    "this is not HTTP; if it is TLS, use http://, or put a proxy with TLS in front", data
                )
        before = self.header_plus
        if isinstance(self.body_rcv, ChunkedReceiver):
            consumed = self._received_chunked(self.body_rcv, data)
        else:
            consumed = super().received(data)
        if self.error is not None:
            self.expect_continue = False
            self._keep_request_id(before + data)
        return consumed

    def parse_header(self, header_plus: bytes) -> None:
        """Parse request line and headers. Sets ``error`` for too many headers or too large a body.

        Raises waitress's ParsingError.
        """
        if header_plus.count(b"\n") > MAX_HEADERS:
            self.error = RequestHeaderFieldsTooLarge(f"more than {MAX_HEADERS} headers")
            return
        try:
            super().parse_header(header_plus)
        except ValueError as error:
            raise ParsingError("the request's address or its Content-Length is invalid") from error
        # A proxy that goes by the other header would not agree on where this request ends (request smuggling).
        if "TRANSFER_ENCODING" in self.headers or (self.chunked and "CONTENT_LENGTH" in self.headers):
            raise ParsingError("Transfer-Encoding needs HTTP/1.1, and no Content-Length beside it")
        if self.content_length > self._most_bytes:
            self.body_rcv, self.content_length = None, 0
            self.error = self._too_large()

    @property
    def reports(self) -> bool:
        """True for the report of a source host, which may come with a thousand others."""
        return _REPORTS.fullmatch(self.path) is not None

    @property
    def credentials(self) -> str:
        """The token or cookies of the request, as they came; empty if there are none."""
        return str(self.headers.get("AUTHORIZATION") or self.headers.get("COOKIE") or "")

    @property
    def _most_bytes(self) -> int:
        """The most bytes that the body of this request may have."""
        most: int = self.adj.max_request_body_size - 1
        if self.reports or _TAKES_ARCHIVE.fullmatch(self.path):
            return most
        return min(most, _SECRET_BODY if _TAKES_SECRET.fullmatch(self.path) else _SMALL_BODY)

    def _too_large(self) -> RequestEntityTooLarge:
        return RequestEntityTooLarge(f"the body is larger than {self._most_bytes} bytes")

    def _received_chunked(self, body: ChunkedReceiver, data: bytes) -> int:
        """Parse a part of a chunked body.

        Parsing a chunk costs as much as parsing a kilobyte of data, so a body may not consist mostly of chunk headers.
        """
        consumed = super().received(data[: max(_CHUNKED_BYTES, body.chunk_remainder)])
        if len(body) > self._most_bytes:
            self.error = self._too_large()
            self.completed = True
            return len(data)
        if not self.completed:
            if max(len(body.control_line), len(body.trailer)) > _MAX_CHUNK_LINE:
                return self._refuse("the header of a chunk or the trailer is too long", data)
            if self.body_bytes_received - len(body) > len(body) + _MAX_FRAMING:
                return self._refuse("the chunks of the body are too small", data)
        return consumed

    def _refuse(self, why: str, data: bytes) -> int:
        self.error = BadRequest(why)
        self.completed = True
        return len(data)

    def _keep_request_id(self, head: bytes) -> None:
        """Keep the caller's request id for a refusal, even if the headers were not parsed to the end."""
        found = _REQUEST_ID.search(head)
        if found and "X_REQUEST_ID" not in self.headers:
            self.headers = {**self.headers, "X_REQUEST_ID": found[1].decode()}


def _may_begin_a_request(data: bytes) -> bool:
    """Tell whether the first byte is text or a line break; that of a TLS handshake is neither."""
    return data[:1] in {b"\r", b"\n"} or b" " <= data[:1] < b"\x7f"
