"""A proxy that passes an answer on when it is whole, as some in companies do."""

from __future__ import annotations

import http.client
import http.server
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from urllib.parse import urlsplit

_OWN = {"connection", "content-length", "date", "keep-alive", "server", "transfer-encoding"}


class _Proxy(http.server.ThreadingHTTPServer):
    daemon_threads = True

    def __init__(self, service: str) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.service = urlsplit(service).netloc
        self.asking: set[http.client.HTTPConnection] = set()


class _Handler(http.server.BaseHTTPRequestHandler):
    server: _Proxy

    def do_GET(self) -> None:
        connection = http.client.HTTPConnection(self.server.service)
        self.server.asking.add(connection)
        try:
            connection.request("GET", self.path, headers=dict(self.headers))
            answer = connection.getresponse()
            body = answer.read()
            self.send_response_only(answer.status)
            for name, value in answer.getheaders():
                if name.lower() not in _OWN:
                    self.send_header(name, value)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)
        except (OSError, http.client.HTTPException):
            self.close_connection = True  # the browser, or the end of the test, has gone first
        finally:
            self.server.asking.discard(connection)
            connection.close()

    def log_message(self, format: str, *arguments: object) -> None:  # noqa: A002 - the signature of the base class
        """Print nothing."""


@contextmanager
def buffering_proxy(service: str) -> Iterator[str]:
    """Serve in front of a service until the end of the block; yield the proxy's URL."""
    with _Proxy(service) as proxy:
        thread = threading.Thread(target=proxy.serve_forever, daemon=True)
        thread.start()
        try:
            yield f"http://localhost:{proxy.server_port}"
        finally:
            proxy.shutdown()
            thread.join()
            for connection in list(proxy.asking):
                connection.close()
