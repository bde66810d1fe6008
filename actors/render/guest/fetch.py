"""Download a source archive; runs in the VM, before any user code.

On stdin it takes one JSON object: ``url``, ``sha256`` (or ""), ``max_bytes`` and ``into``. If
the download fails, it exits with 1 and a sentence on stderr.
"""

from __future__ import annotations

import hashlib
import http.client
import json
import os
import sys
import urllib.error
import urllib.request

_CHUNK_BYTES = 1 << 18
_READ_SECONDS = 30.0


def main() -> None:
    """Download the archive that stdin asks for."""
    options = json.load(sys.stdin)
    try:
        digest = _download(options)
    except urllib.error.HTTPError as error:
        sys.exit(f"the server answered {error.code} {error.reason}")
    except (OSError, ValueError, http.client.HTTPException) as error:
        reason = getattr(error, "reason", None) or error
        sys.exit(f"{getattr(reason, 'strerror', None) or reason}")
    if options["sha256"] and digest != options["sha256"]:
        sys.exit(f"the source has the SHA-256 {digest}, but {options['sha256']} was expected")


def _download(options: dict) -> str:  # type: ignore[type-arg] # a JSON object
    """Write the archive and return its SHA-256."""
    request = urllib.request.Request(options["url"], headers={"User-Agent": "ci-daemon"})  # noqa: S310 - the opener knows only http and https
    digest = hashlib.sha256()
    size = 0
    os.makedirs(os.path.dirname(options["into"]), exist_ok=True)  # noqa: PTH103, PTH120 - saves an import
    with _opener().open(request, timeout=_READ_SECONDS) as response, open(options["into"], "wb") as file:  # noqa: PTH123 - saves an import
        while chunk := response.read(_CHUNK_BYTES):
            size += len(chunk)
            if size > options["max_bytes"]:
                sys.exit(f"the source has more than {options['max_bytes']} bytes")
            digest.update(chunk)
            file.write(chunk)
    return digest.hexdigest()


def _opener() -> urllib.request.OpenerDirector:
    """Return an opener that speaks only http and https, follows up to ten redirects, and uses no proxy."""
    opener = urllib.request.OpenerDirector()
    for handler in (
        urllib.request.HTTPHandler(),
        urllib.request.HTTPSHandler(),
        urllib.request.HTTPDefaultErrorHandler(),
        urllib.request.HTTPRedirectHandler(),
        urllib.request.HTTPErrorProcessor(),
        urllib.request.UnknownHandler(),
    ):
        opener.add_handler(handler)
    return opener


if __name__ == "__main__":
    main()
