"""A registry in a machine, as a program.

Usage: `redirecting_registry.py FOLDER CERTIFICATE PORT LOOPBACK_PORT`.

It serves the manifests and blobs of a folder over TLS, and redirects the blobs of the image `redirected` to a literal
address of the loopback. Its standard error says what it is asked for, and what reaches the loopback.
"""

import ssl
import sys
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

FOLDER, CERTIFICATE, PORT, LOOPBACK_PORT = Path(sys.argv[1]), sys.argv[2], int(sys.argv[3]), int(sys.argv[4])
MANIFEST = "application/vnd.oci.image.manifest.v1+json"


class Registry(BaseHTTPRequestHandler):
    """Manifests and blobs by their last name; a redirect for one image."""

    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        manifest, body = "/manifests/" in self.path, b"{}"
        if manifest or "/blobs/" in self.path:
            body = (FOLDER / ("manifest" if manifest else self.path.rpartition(":")[2])).read_bytes()
        redirected = "/redirected/blobs/" in self.path
        self.send_response(307 if redirected else 200)
        self.send_header("Content-Type", MANIFEST if manifest else "application/octet-stream")
        if redirected:
            self.send_header("Location", f"http://127.0.0.1:{LOOPBACK_PORT}{self.path}")
        self.send_header("Content-Length", str(0 if redirected else len(body)))
        self.end_headers()
        self.wfile.write(b"" if redirected else body)


class Loopback(BaseHTTPRequestHandler):
    """A service of the host that no pull may reach."""

    def do_GET(self) -> None:
        self.send_error(404)

    def log_message(self, *_: object) -> None:
        sys.stderr.write("the loopback was reached\n")


if __name__ == "__main__":
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(CERTIFICATE)
    near = ThreadingHTTPServer(("127.0.0.1", LOOPBACK_PORT), Loopback)
    threading.Thread(target=near.serve_forever, daemon=True).start()
    with ThreadingHTTPServer(("127.0.0.1", PORT), Registry) as registry:
        registry.socket = context.wrap_socket(registry.socket, server_side=True)
        registry.serve_forever()
