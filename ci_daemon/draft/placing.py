"""Write pipeline files into a project."""

from __future__ import annotations

from typing import TYPE_CHECKING

from actors.render import is_yaml_name

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path


class PipelineExists(Exception):
    """A project has pipeline files already; the message names one."""


def place(tree: Path, texts: Mapping[str, str]) -> list[Path]:
    """Write the first pipeline files of a project, by their names, and return their paths.

    Raises PipelineExists if the project has any, and OSError.
    """
    folder = tree / ".hm"
    if folder.is_symlink():  # it may lead anywhere
        message = f"{folder} is a link: make it a folder first, or write the pipeline there by hand"
        raise PipelineExists(message)
    files = [folder / name for name in texts]
    existing = sorted(each for each in folder.glob("*.*") if each.suffix == ".py" or is_yaml_name(each.name))
    existing += [each for each in files if each.is_symlink() or each.exists()]
    try:
        if existing:
            raise FileExistsError(existing[0])
        folder.mkdir(exist_ok=True)
        for file, text in zip(files, texts.values(), strict=True):
            existing = [file]
            with file.open("x", encoding="utf-8") as opened:  # also if a link is there, which is not followed
                opened.write(text)
    except FileExistsError as error:
        there = existing[0] if existing else folder
        message = f"{there} exists: remove it first, or write the pipeline there by hand"
        raise PipelineExists(message) from error
    return files
