"""Source archives for tests of rendering."""

from __future__ import annotations

import base64
import io
import tarfile
from pathlib import Path
from typing import Any

import httpx

from tests.e2e.daemon import Pipeline

HELLO = """
import harmont as hm

@hm.pipeline("demo")
def demo():
    return hm.sh("cat greeting", label="greet")
"""


def archive(files: dict[str, str]) -> bytes:
    """Return a gzipped tar of files, given by name."""
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w:gz") as tar:
        for name, text in files.items():
            info = tarfile.TarInfo(name)
            info.size = len(text.encode())
            tar.addfile(info, io.BytesIO(text.encode()))
    return buffer.getvalue()


def tree(directory: Path, **more: str) -> bytes:
    """Return a gzipped tar of a directory and of more files."""
    names = [path for path in sorted(directory.rglob("*")) if path.is_file()]
    return archive({path.relative_to(directory).as_posix(): path.read_text() for path in names} | more)


def pipeline_file(text: str) -> bytes:
    """Return an archive with one pipeline file."""
    return archive({".hm/pipeline.py": text, "greeting": "hello from the source\n"})


def post(pipeline: Pipeline, source: bytes | None, *, patience: float = 60, **fields: Any) -> httpx.Response:
    """Post a build from source alone; ``patience`` is the time-out of the answer in seconds."""
    body = {"branch": "main", "commit": "0" * 40, **fields}
    if source is not None:
        body["source_b64"] = base64.b64encode(source).decode()
    path = f"pipelines/{pipeline.slug}/builds"
    return pipeline.client.request("POST", path, json=body, timeout=patience)
