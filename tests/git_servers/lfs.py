"""git-lfs as a program that is only unpacked, and the answers of a server of git LFS."""

from __future__ import annotations

import json
import os
import re
from pathlib import Path
from typing import Any

from tests.programs import unpacked_program

_BATCH = re.compile(r"(?P<repository>/.*)/info/lfs/objects/batch")
_OBJECT = re.compile(r"(?P<repository>/.*)/lfs-objects/(?P<oid>[0-9a-f]{64})")


def path_with_lfs() -> str:
    """Return a PATH on which git finds git-lfs."""
    return f"{Path(unpacked_program('git-lfs')).parent}:{os.environ['PATH']}"


def lfs_answer(root: Path, address: str, path: str, body: bytes, header: dict[str, str]) -> bytes | None:
    """Return the answer of a server of git LFS; None to other requests.

    The objects of the bare repositories below a folder are those that pushes to a path left there; they are served
    below the ``address``, to requests with ``header``.
    """
    if found := _OBJECT.fullmatch(path):
        return _stored(root, found["repository"], found["oid"]).read_bytes()
    if not (found := _BATCH.fullmatch(path)):
        return None
    objects: list[dict[str, Any]] = []
    for each in json.loads(body)["objects"]:
        href = f"{address}{found['repository']}/lfs-objects/{each['oid']}"
        there = _stored(root, found["repository"], each["oid"]).exists()
        missing = {"error": {"code": 404, "message": "it is gone"}}
        objects.append({**each, **({"actions": {"download": {"href": href, "header": header}}} if there else missing)})
    return json.dumps({"transfer": "basic", "objects": objects}).encode()


def _stored(root: Path, repository: str, oid: str) -> Path:
    return root / repository.strip("/") / "lfs" / "objects" / oid[:2] / oid[2:4] / oid
