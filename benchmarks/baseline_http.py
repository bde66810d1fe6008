"""The baseline of an HTTP read: a falcon resource on waitress that answers fixed bytes.

It runs as a process of its own: it reads the bytes from stdin, prints its port to stdout, and serves until it is
killed.
"""

from __future__ import annotations

import logging
import socket
import sys

import falcon
import waitress

_THREADS = 16


class Record:
    """A resource that answers with a constant record."""

    def __init__(self, record: bytes) -> None:
        self._record = record

    def on_get(self, req: falcon.Request, resp: falcon.Response) -> None:
        """Answer with the record."""
        resp.data = self._record
        resp.content_type = falcon.MEDIA_JSON


def main() -> None:
    """Serve the record from stdin on a free port."""
    logging.getLogger("waitress.queue").setLevel(logging.ERROR)
    app = falcon.App()
    app.add_route("/record", Record(sys.stdin.buffer.read()))
    listener = socket.create_server(("127.0.0.1", 0))
    print(listener.getsockname()[1], flush=True)
    waitress.serve(app, sockets=[listener], threads=_THREADS)


if __name__ == "__main__":
    main()
