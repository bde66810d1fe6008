"""The floor of a read: a falcon resource that answers bytes it holds, on waitress. Run as a process of its own.

It reads the bytes from its standard input, says its port on its standard output, and serves until it is killed.
"""

from __future__ import annotations

import logging
import socket
import sys

import falcon
import waitress

from api import HttpSettings


class Record:
    """Answers with a record that costs nothing."""

    def __init__(self, record: bytes) -> None:
        self._record = record

    def on_get(self, req: falcon.Request, resp: falcon.Response) -> None:
        """Answer."""
        resp.data = self._record
        resp.content_type = falcon.MEDIA_JSON


def main() -> None:
    """Serve."""
    logging.getLogger("waitress.queue").setLevel(logging.ERROR)
    app = falcon.App()
    app.add_route("/record", Record(sys.stdin.buffer.read()))
    listener = socket.create_server(("127.0.0.1", 0))
    print(listener.getsockname()[1], flush=True)
    waitress.serve(app, sockets=[listener], threads=HttpSettings().threads)


if __name__ == "__main__":
    main()
