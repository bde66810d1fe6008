"""The DSL as it is sent to VMs."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from actors.render.loader import packed_dsl

_HOST = "import sys; from actors.render.loader import packed_dsl; packed_dsl(); print('harmont' in sys.modules)"
_GUEST = """
import sys
sys.path.insert(0, sys.argv[1])
import harmont
print(harmont.__cached__)
print(harmont.pipeline.__code__.co_filename)
"""


def python(code: str, *arguments: str) -> list[str]:
    done = subprocess.run([sys.executable, "-c", code, *arguments], check=True, capture_output=True, text=True)
    return done.stdout.splitlines()


def test_packing_it_imports_nothing_of_it():
    """Its modules take as long to import as all of a render in a VM."""
    assert python(_HOST) == ["False"]


def test_it_is_byte_code_that_names_no_path_of_the_host(tmp_path: Path):
    (archive := tmp_path / "dsl.zip").write_bytes(packed_dsl())
    cached, source = python(_GUEST, str(archive))
    assert cached == f"{archive}/harmont/__init__.pyc"
    assert source.startswith("harmont/")
