"""Load a repository's pipeline files and write their envelope.

Runs in the VM, in one process with the user's code. Arguments: the archive of both languages, the descriptor that takes
the envelope, and one on which ``load ORGANIZATION PIPELINE BUILT`` comes once the repository is there: the slugs of
both, and what is built as JSON, if that is known. The working directory is the repository's root.

Files are in the DSL or in the service's own language, whose documents stand in the envelope for the service to check.

The DSL writes the folder of a step into its command without quotes, and does not write that a wait goes on after a
failure. `complete_language` puts both right. A release of the DSL that writes them itself is left alone. The DSL's
toolchains write their folder without quotes, too, in many commands and places: one that is not a word is refused.
"""

from __future__ import annotations

import functools
import importlib.util
import json
import os
import pathlib
import sys
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence
    from types import TracebackType

    from harmont import Step

_LINE_BYTES = 1 << 12
_OTHER_LANGUAGES = {".ts", ".mts", ".cts", ".tsx", ".js", ".mjs", ".cjs", ".jsx"}


def main() -> None:
    """Render every pipeline of every ``.hm/*.py``."""
    sys.excepthook = _print_traceback
    dsl, result, repository_awaited = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
    sys.path.insert(0, dsl)
    sys.dont_write_bytecode = True
    import harmont  # noqa: PLC0415 - importable only from here on

    complete_language()
    language: Any = importlib.import_module("ci_daemon.language")
    words = _line(repository_awaited).split(maxsplit=3)
    os.environ["HM_PIPELINE_ORG"], os.environ["HM_PIPELINE_SLUG"] = words[1:3]
    language.begin(json.loads(words[3]) if len(words) > 3 else {})  # noqa: PLR2004 - what is built
    sys.argv[:] = [""]
    sys.path.append(os.getcwd())  # noqa: PTH109 - a string, as sys.path wants
    failed = False
    files = sorted(pathlib.Path(".hm").glob("*.py"))
    if not files:
        _refuse_other_languages()
    for path in files:
        try:
            _load(path)
        except Exception:  # noqa: BLE001 - the user's code; the other files may have mistakes, too
            _print_traceback(*sys.exc_info())
            failed = True
    documents = []
    for each in language.registered:
        try:
            documents.append(each.document())
        except Exception:  # noqa: BLE001 - the user's code; the other pipelines may have mistakes, too
            _print_traceback(*sys.exc_info())
            failed = True
    envelope = first = None
    try:
        envelope = harmont.dump_registry_json()
    except Exception as error:  # noqa: BLE001 - the user's code; the other pipelines may have mistakes, too
        first = error
    if first is not None:  # handled by now: no other mistake happened "during handling" of it
        _print_mistakes(first)
    if failed or envelope is None:
        sys.exit(1)
    with open(result, "w", encoding="utf-8") as file:
        file.write(_with_documents(envelope, documents, of_build=language.asked()))


def _line(descriptor: int) -> str:
    """Return the line that comes on a descriptor, and close it."""
    line = b""
    while not line.endswith(b"\n"):
        chunk = os.read(descriptor, _LINE_BYTES)
        if not chunk:
            sys.exit("the repository did not come")
        line += chunk
    os.close(descriptor)
    return line.decode()


def _with_documents(envelope: str, documents: list[dict[str, Any]], *, of_build: bool) -> str:
    """Return the DSL's envelope with documents; ``of_build`` if another build may have others."""
    if not documents and not of_build:
        return envelope
    return json.dumps({**json.loads(envelope), "documents": documents, "of_build": of_build})


def _refuse_other_languages() -> None:
    """Exit if all pipelines are in another language of the DSL: they would be passed over."""
    found = sorted(path.name for path in pathlib.Path(".hm").glob("*.*") if path.suffix in _OTHER_LANGUAGES)
    if found:
        sys.exit(
            f".hm has pipelines in TypeScript or JavaScript alone, such as {found[0]!r}, and this service renders those"
            " in Python: write .hm/pipeline.py, or send the plan that yours renders to"
        )


def complete_language() -> None:
    """Make the imported DSL write what steps and waits say. To be called once, before files are loaded."""
    try:
        _quote_folders()
        _refuse_folders()
        _keep_waits()
    except (ImportError, AttributeError) as error:
        sys.exit(f"the installed release of harmont is not one that ci-daemon knows: {error}")


def in_folder(command: str, folder: str) -> str:
    """Return a command that runs in a folder, and fails if it cannot; an empty one stays empty.

    ``cd FOLDER && COMMAND``, as the DSL writes it, skips the first of several commands, and runs the rest elsewhere.
    """
    import shlex  # noqa: PLC0415 - few steps have a folder

    if not command.strip():
        return ""
    path = f"./{folder}" if folder.startswith("-") else folder
    return f"cd {shlex.quote(path)} || exit; {command.lstrip()}"


def _quote_folders() -> None:
    """Give steps with ``cwd`` the command of `in_folder`. All calls that take it end in ``Step.sh``."""
    from harmont._step import Step  # noqa: PLC0415 - importable only from here on

    if Step().sh("a", cwd="b").cmd != "cd b && a":
        return
    original = Step.sh

    @functools.wraps(original)
    def sh(self: Step, cmd: str, *, cwd: object = None, **options: object) -> Step:
        if cwd is None or cwd == "":
            return original(self, cmd, cwd=cwd, **options)  # type: ignore[arg-type] # the DSL refuses what is wrong
        return original(self, in_folder(f"{cmd}", f"{cwd}"), **options)  # type: ignore[arg-type] # the same

    Step.sh = sh  # type: ignore[method-assign] # the very point


def _refuse_folders() -> None:
    """Make toolchains, which are data classes, refuse a ``path`` that is not one word of the shell."""
    from harmont import _cmake, _elixir, _go, _js, _python, _rust, _zig  # noqa: PLC0415 - importable only from here on

    for module in (_cmake, _elixir, _go, _js, _python, _rust, _zig):
        made = [
            each
            for each in vars(module).values()
            if isinstance(each, type) and "path" in getattr(each, "__dataclass_fields__", ())
        ]
        if not made:
            msg = f"{module.__name__} has no toolchain with a path"
            raise AttributeError(msg)
        for each in made:
            _refuse_folders_of(each)


def _refuse_folders_of(toolchain: type) -> None:
    original = toolchain.__init__  # type: ignore[misc] # that of a data class

    @functools.wraps(original)
    def init(self: object, *values: object, **fields: object) -> None:
        original(self, *values, **fields)
        folder = f"{self.path}"  # type: ignore[attr-defined] # the field that it was chosen by
        if not _is_word(folder):
            msg = (
                f"the path {folder!r} of a toolchain is not one word of the shell, and harmont writes it into commands"
                f" without quotes\n  → rename the folder, or write the steps as hm.sh(..., cwd={folder!r})"
            )
            raise ValueError(msg)

    toolchain.__init__ = init  # type: ignore[misc] # the very point


def _is_word(text: str) -> bool:
    """Tell whether a shell reads a text, which may be quoted, as one word."""
    import shlex  # noqa: PLC0415 - few pipelines have toolchains

    words = shlex.shlex(text, posix=True, punctuation_chars=True)
    words.whitespace_split, words.commenters = True, ""
    try:
        return len(list(words)) == 1 and not text.startswith("#")
    except ValueError:  # a quote that is left open
        return False


def _keep_waits() -> None:
    """Write into the edges of each pipeline what its waits say.

    That is done after the keys of caches are made, because the DSL takes edges with three elements alone.
    """
    envelope: Any = importlib.import_module("harmont._envelope")
    assemble, resolve_keys = envelope._assemble, envelope.resolve_pipeline_keys  # noqa: SLF001 - there is no other way
    wanted: dict[tuple[int, int], bool] = {}

    def assembled(leaves: Sequence[Step], **options: object) -> object:
        wanted.clear()
        wanted.update(_awaited(leaves))
        return assemble(leaves, **options)

    def resolved(graph: dict, **options: object) -> dict:  # type: ignore[type-arg] # JSON
        resolve_keys(graph, **options)
        if all(len(edge) == 3 for edge in graph["edges"]):  # noqa: PLR2004 - from, to and kind
            _complete_edges(graph["edges"], wanted)
        return graph

    envelope._assemble, envelope.resolve_pipeline_keys = assembled, resolved  # noqa: SLF001 - the same


def _awaited(leaves: Sequence[Step]) -> dict[tuple[int, int], bool]:
    """Return a pipeline's waits: by indexes of prerequisite and dependent, if they go on after a failure.

    As in the flat shape, a wait makes every later command depend on every earlier one, and consecutive waits are one
    (pipeline-ir.md, "Flat shape"). What follows from other waits is left out: without a wait that goes on after a
    failure, a command depends on those since the wait before the last one.
    """
    from harmont._pipeline import _topo_collect  # noqa: PLC0415 - importable only from here on

    stages: list[list[int]] = [[]]
    goes_on: list[bool] = []  # the wait after each stage but the last
    wanted: dict[tuple[int, int], bool] = {}
    count = 0
    for step in _topo_collect(list(leaves)):
        if not step.is_wait:
            if step.cmd is not None:
                wanted.update(((source, count), lenient) for source, lenient in _sources(stages[:-1], goes_on))
                stages[-1].append(count)
                count += 1
        elif stages[-1]:
            stages.append([])
            goes_on.append(step.continue_on_failure)
        elif goes_on:
            goes_on[-1] = goes_on[-1] and step.continue_on_failure
    return wanted


def _sources(stages: Sequence[Sequence[int]], goes_on: Sequence[bool]) -> Iterable[tuple[int, bool]]:
    """Yield what the commands after some stages depend on, and if any end of it will do."""
    strict = max((place + 1 for place, lenient in enumerate(goes_on) if not lenient), default=0)
    for place, stage in enumerate(stages):
        if place >= strict - 1 or any(goes_on[place : strict - 1]):
            yield from ((source, place >= strict) for source in stage)


def _complete_edges(edges: list, wanted: dict[tuple[int, int], bool]) -> None:  # type: ignore[type-arg] # JSON
    """Mark the edges of waits that go on after a failure, and add those that are missing."""
    rest = dict(wanted)
    for edge in edges:
        if edge[2] == "depends_on" and rest.pop((edge[0], edge[1]), False):
            edge.append({"continue_on_failure": True})
    for (source, target), lenient in rest.items():
        edges.append([source, target, "depends_on", *([{"continue_on_failure": True}] if lenient else [])])


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
