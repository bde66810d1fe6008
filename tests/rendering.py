"""Rendering on this host, in a process of its own, of what a test or the product wrote."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from contextlib import closing
from pathlib import Path

import harmont
from harmont._registry import clear_registry

from actors.ir import IrSettings, Plan, load
from actors.render import DeclaredPipeline, Envelope
from actors.render.guest import program

RENDER = """
import runpy, sys, harmont
from actors.render.guest.load import complete_language
complete_language()
runpy.run_path(sys.argv[1])
print(harmont.dump_registry_json(now=1767225600))
"""


def planned(pipeline: Path, project: Path) -> dict[str, Plan]:
    """Return the plans of the pipelines that a file declares, by slug, rendered in a project."""
    argv = [sys.executable, "-c", RENDER, str(pipeline)]
    done = subprocess.run(argv, cwd=project, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    envelope = json.loads(done.stdout)
    return {each["slug"]: load(json.dumps(each["definition"]), IrSettings()) for each in envelope["pipelines"]}


def envelope(project: Path) -> str:
    """Return the envelope that the loader itself writes of a project's pipeline files."""
    read, write = os.pipe()
    with closing(os.fdopen(write, "wb")) as slugs:
        slugs.write(b"load acme web\n")
    with closing(os.fdopen(read)), tempfile.NamedTemporaryFile() as result:
        argv = [sys.executable, "-c", program("load"), "", str(result.fileno()), str(read)]
        fds = result.fileno(), read
        done = subprocess.run(argv, cwd=project, pass_fds=fds, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
        return Path(result.name).read_text()


def declared_by(text: str) -> tuple[DeclaredPipeline, ...]:
    """Return the pipelines that a pipeline file's text declares, rendered in this process."""
    clear_registry()
    try:
        exec(compile(text, "pipeline.py", "exec"), {"__name__": "pipeline"})  # the product wrote it
        return Envelope.parse(harmont.dump_registry_json(now=1767225600)).pipelines
    finally:
        clear_registry()
