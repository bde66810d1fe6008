"""Rendering on this host, in a process of its own, of what a test or the product wrote."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

from actors.ir import IrSettings, Plan, load

RENDER = "import runpy, sys, harmont; runpy.run_path(sys.argv[1]); print(harmont.dump_registry_json(now=1767225600))"


def planned(pipeline: Path, project: Path) -> dict[str, Plan]:
    """Return the plans of the pipelines that a file declares, by slug, rendered in a project."""
    argv = [sys.executable, "-c", RENDER, str(pipeline)]
    done = subprocess.run(argv, cwd=project, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    envelope = json.loads(done.stdout)
    return {each["slug"]: load(json.dumps(each["definition"]), IrSettings()) for each in envelope["pipelines"]}
