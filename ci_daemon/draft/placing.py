"""Write a pipeline file into a project."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path


class PipelineExists(Exception):
    """A project has pipeline files already; the message names one."""


def place(tree: Path, text: str) -> Path:
    """Write the first pipeline file of a project, and return its path.

    Raises PipelineExists if the project has any, and OSError.
    """
    folder = tree / ".hm"
    existing = sorted(folder.glob("*.py"))
    file = folder / "pipeline.py"
    if folder.is_symlink():  # it may lead anywhere
        message = f"{folder} is a link: make it a folder first, or write the pipeline there by hand"
        raise PipelineExists(message)
    try:
        if existing:
            raise FileExistsError(existing[0])
        folder.mkdir(exist_ok=True)
        with file.open("x", encoding="utf-8") as opened:  # also if a link is there, which is not followed
            opened.write(text)
    except FileExistsError as error:
        there = existing[0] if existing else file
        message = f"{there} exists: remove it first, or write the pipeline there by hand"
        raise PipelineExists(message) from error
    return file
