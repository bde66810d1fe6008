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
    from collections.abc import Callable
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
    envelope = None
    try:
        envelope = harmont.dump_registry_json()
    except Exception as error:  # noqa: BLE001 - the user's code; the other pipelines may have mistakes, too
        _print_mistakes(error)
    if failed or envelope is None:
        sys.exit(1)
    with open(result, "w", encoding="utf-8") as file:
        file.write(envelope)


def _print_mistakes(first: Exception) -> None:
    """Print a traceback for each pipeline that cannot be rendered; the DSL ends at the ``first`` of them.

    The DSL renders what is registered, and has no other way to render one pipeline.
    """
    import harmont  # noqa: PLC0415 - importable only now
    from harmont._registry import REGISTRATIONS  # noqa: PLC0415 - see above

    found = False
    for each in list(REGISTRATIONS):
        REGISTRATIONS[:] = [each]
        try:
            harmont.dump_registry_json()
        except Exception as error:  # noqa: BLE001 - the user's code
            _print_traceback(type(error), error, error.__traceback__, each.fn)
            found = True
    if not found:  # what failed has passed this time
        _print_traceback(type(first), first, first.__traceback__)


def _load(path: pathlib.Path) -> None:
    spec = importlib.util.spec_from_file_location(f"_harmont_{path.stem}", path)
    assert spec is not None and spec.loader is not None  # noqa: S101, PT018 - a .py file always has one
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)


def _print_traceback(
    kind: type[BaseException] | None,
    error: BaseException | None,
    trace: TracebackType | None,
    pipeline: Callable[..., object] | None = None,
) -> None:
    """Print a traceback that begins in the pipeline files, without the loader's frames.

    If none of its frames is there, it begins at the ``pipeline`` whose result the DSL refuses.
    """
    import inspect  # noqa: PLC0415 - most pipeline files have no error
    import traceback  # noqa: PLC0415 - the same

    while trace is not None and trace.tb_frame.f_code.co_filename.startswith("<"):
        trace = trace.tb_next
    if kind is None or error is None:
        return
    shown = traceback.TracebackException(kind, error, trace)
    here = os.path.join(os.getcwd(), "")  # noqa: PTH109, PTH118 - a prefix of names
    if pipeline is not None and not any(frame.filename.startswith(here) for frame in shown.stack):
        code = inspect.unwrap(pipeline).__code__
        shown.stack.insert(0, traceback.FrameSummary(code.co_filename, code.co_firstlineno, code.co_name))
    print(*shown.format(), sep="", end="", file=sys.stderr)  # noqa: T201 - it is for the build's log


if __name__ == "__main__":
    main()
