"""Rendering on this host, in a process of its own, of what a test or the product wrote."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from contextlib import closing
from pathlib import Path
from typing import Any

import harmont
from harmont._registry import clear_registry

from actors.ir import Built, IrSettings, PipelineFile, Plan, load
from actors.render import DeclaredPipeline, Envelope
from actors.render.guest import language, program

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


def planned_yaml(texts: Mapping[str, str], built: Built | None = None) -> dict[str, Plan]:
    """Return the plans of pipelines in YAML for a build, by slug, as the language's own reader has them."""
    declared = [PipelineFile.parse(f".hm/{name}", text).declared({}, 0) for name, text in texts.items()]
    return {each["slug"]: load(json.dumps(each["definition"]), IrSettings(), built) for each in declared}


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


def documents_of(text: str, built: Built | None = None) -> list[dict[str, Any]]:
    """Return the documents that a file in the service's own language declares for a build."""
    language.begin({} if built is None else built.facts)
    language.registered.clear()
    try:
        exec(compile(text, ".hm/ci.py", "exec"), {"__name__": "pipeline"})  # the test wrote it
        return json.loads(json.dumps([each.document() for each in language.registered]))  # type: ignore[no-any-return]
    finally:
        language.registered.clear()


def declared_by(text: str) -> tuple[DeclaredPipeline, ...]:
    """Return the pipelines that a pipeline file's text declares, rendered in this process."""
    clear_registry()
    try:
        exec(compile(text, "pipeline.py", "exec"), {"__name__": "pipeline"})  # the product wrote it
        return Envelope.parse(harmont.dump_registry_json(now=1767225600)).pipelines
    finally:
        clear_registry()
