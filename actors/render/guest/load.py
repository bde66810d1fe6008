"""Load a repository's pipeline files and write their envelope.

Runs in the VM, in one process with the user's code. Arguments: the DSL's archive, the descriptor that takes the
envelope, and one on which ``load ORGANIZATION PIPELINE`` comes, with the slugs of both, once the repository is there.
The working directory is the repository's root.
"""

from __future__ import annotations

import importlib.util
import os
import pathlib
import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from types import TracebackType

_LINE_BYTES = 1 << 12


def main() -> None:
    """Render every pipeline of every ``.hm/*.py``."""
    sys.excepthook = _print_traceback
    dsl, result, repository_awaited = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
    sys.path.insert(0, dsl)
    sys.dont_write_bytecode = True
    import harmont  # noqa: PLC0415 - importable only from here on

    line = os.read(repository_awaited, _LINE_BYTES)
    if not line:
        sys.exit("the repository did not come")
    os.close(repository_awaited)
    _, os.environ["HM_PIPELINE_ORG"], os.environ["HM_PIPELINE_SLUG"] = line.decode().split()
    sys.argv[:] = [""]
    sys.path.append(os.getcwd())  # noqa: PTH109 - a string, as sys.path wants
    failed = False
    for path in sorted(pathlib.Path(".hm").glob("*.py")):
        try:
            _load(path)
        except Exception:  # noqa: BLE001 - the user's code; the other files may have mistakes, too
            _print_traceback(*sys.exc_info())
            failed = True
    if failed:
        sys.exit(1)
    envelope = harmont.dump_registry_json()
    with open(result, "w", encoding="utf-8") as file:
        file.write(envelope)


def _load(path: pathlib.Path) -> None:
    spec = importlib.util.spec_from_file_location(f"_harmont_{path.stem}", path)
    assert spec is not None and spec.loader is not None  # noqa: S101, PT018 - a .py file always has one
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)


def _print_traceback(
    kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
) -> None:
    """Print a traceback that begins in the pipeline files, without the loader's frames."""
    import traceback  # noqa: PLC0415 - most pipeline files have no error

    while trace is not None and trace.tb_frame.f_code.co_filename.startswith("<"):
        trace = trace.tb_next
    traceback.print_exception(kind, error, trace)


if __name__ == "__main__":
    main()
