"""`ci-daemon new`: write the first pipeline of a tree."""

from __future__ import annotations

from pathlib import Path

import click

from ci_daemon import draft
from ci_daemon import new as beginning
from ci_daemon.command.support.command_classes import CallerCommand
from ci_daemon.command.support.session import Failure, Session, pass_session
from ci_daemon.config import ConfigError
from ci_daemon.remote.contexts import ContextsUnusable

_DOCSTRING = "The pipeline of this project, as `ci-daemon new` began it."


@click.command(cls=CallerCommand, reads=True)
@click.argument("tree", metavar="[DIR]", default=".", type=click.Path(exists=True, file_okay=False, path_type=Path))
@click.option("--python", is_flag=True, help="Write .hm/pipeline.py, in Python, in place of YAML.")
@pass_session
def new(session: Session, *, tree: Path, python: bool) -> None:
    """Write a first pipeline for what is found in DIR, by default the working directory.

    It looks for Python, Node, Go, Rust, CMake and Make at the top of DIR, and writes .hm/ci.yml, which installs the
    project's dependencies, with a cache, and runs its tests. A pipeline that is there is never overwritten. Where a
    service is known, the first line tells editors where its schema is.
    """
    found = beginning.detect(beginning.Project.read(tree))
    pipeline = beginning.first_pipeline(found)
    try:
        if python:
            texts = {"pipeline.py": draft.written(pipeline, _DOCSTRING)}
        else:
            texts = {f"{pipeline.slug}.yml": draft.yaml_written(pipeline, _DOCSTRING, _schema(session))}
        (file,) = draft.place(tree, texts)
    except draft.PipelineExists as error:
        raise Failure(str(error)) from error
    lines = [f"found {each.language}, by {each.file}" for each in found] or ["found no language that is known here"]
    lines += [
        f"wrote {file}",
        f"next: `ci-daemon run {tree}` runs it, `ci-daemon lint {tree}` shows its steps",
    ]
    document = {
        "file": str(file),
        "found": [{"language": each.language, "file": each.file} for each in found],
    }
    session.answer(document, "\n".join(lines))


def _schema(session: Session) -> str | None:
    """Return the address of the schema at the caller's service; None if none is known."""
    try:
        server = session.server()
        url = session.service_url() if server is None else server.url
    except (Failure, ContextsUnusable, ConfigError):
        return None
    return f"{url.rstrip('/')}/api/v0/pipeline.schema.json"
