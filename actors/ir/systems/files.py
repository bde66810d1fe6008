"""Files of Woodpecker and builds.sr.ht, by their places in a repository, as pipelines. Pure.

`ci-daemon convert` writes these pipelines, and where a repository has none of its own they are rendered as they are.
"""

from __future__ import annotations

import re
from dataclasses import replace
from typing import TYPE_CHECKING

from actors.ir.systems.jobs import unused
from actors.ir.systems.located import NotReadable, read
from actors.ir.systems.omissions import Omission, Omissions
from actors.ir.systems.places import SOURCEHUT, name_of
from actors.ir.systems.sourcehut import convert_sourcehut
from actors.ir.systems.woodpecker import convert_woodpecker
from storage import immutable

if TYPE_CHECKING:
    from collections.abc import Mapping

    from actors.ir.systems.model import ConvertedPipeline

_LINE = re.compile(r"line (\d{1,7}): ")


@immutable
class Translation:
    """The pipelines of files, each with the file that it is of, and what differs."""

    pipelines: tuple[tuple[str, ConvertedPipeline], ...]
    omissions: tuple[Omission, ...]


def translated(texts: Mapping[str, str]) -> Translation:
    """Return the pipelines of the texts of files, by their paths. A file that cannot be read is a loss."""
    found: list[tuple[str, ConvertedPipeline]] = []
    omissions: list[Omission] = []
    woodpecker = {path: text for path, text in texts.items() if not SOURCEHUT.fullmatch(path)}
    try:
        read_ones = {name_of(path): (read(text, path), Omissions(path)) for path, text in woodpecker.items()}
        paths = {name_of(path): path for path in woodpecker}
        pipelines, notes = convert_woodpecker(read_ones)
        found += [(paths[each.of], each) for each in pipelines]
        omissions += notes
    except NotReadable as error:
        omissions.append(_unread(next(iter(woodpecker)), error))
    for path, text in texts.items():
        if path in woodpecker:
            continue
        of_file = Omissions(path)
        try:
            found += [(path, each) for each in convert_sourcehut(read(text, path), name_of(path), of_file)]
        except NotReadable as error:
            omissions.append(_unread(path, error))
        omissions += of_file.all
    slugs: list[str] = []
    for _, pipeline in found:
        slugs.append(unused(pipeline.slug, slugs))
    named = zip(found, slugs, strict=True)
    return Translation(tuple((path, replace(each, slug=slug)) for (path, each), slug in named), tuple(omissions))


def _unread(path: str, error: NotReadable) -> Omission:
    line = _LINE.match(str(error))
    return Omission(path, 1 if line is None else int(line[1]), "", _LINE.sub("", str(error), 1), is_loss=True)
