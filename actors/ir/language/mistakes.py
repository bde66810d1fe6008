"""Mistakes of files in YAML, with their places. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING

from actors.ir.decoding import quoted
from actors.ir.language.yaml_text import Document, Mark, NotYaml, read_yaml
from storage import BuildErrorCode, immutable

if TYPE_CHECKING:
    from collections.abc import Iterable

    from actors.ir.decoding import Fault


@immutable
class Mistake:
    """A mistake in a file, with its line and column."""

    file: str
    line: int
    column: int
    code: str
    message: str

    def __str__(self) -> str:
        return f"{self.file}:{self.line}:{self.column}: {self.message}"

    @classmethod
    def at(cls, file: str, mark: Mark, message: str, code: str = BuildErrorCode.INVALID_IR) -> Mistake:
        """Return the mistake at a place, which may be of another file that this one uses."""
        return cls(mark.file or file, mark.line, mark.column, code, message)

    @classmethod
    def of(cls, file: str, document: Document, fault: Fault) -> Mistake:
        """Return the fault of a file's document."""
        return cls.at(file, document.mark(fault.path), fault.message, fault.code)


class FileInvalid(Exception):
    """A file describes no pipeline; ``mistakes`` are in the order of its lines."""

    def __init__(self, mistakes: Iterable[Mistake]) -> None:
        self.mistakes = tuple(sorted(dict.fromkeys(mistakes), key=lambda each: (each.file, each.line, each.column)))
        super().__init__("\n".join(map(str, self.mistakes)))


def read_file(name: str, text: str) -> tuple[Document, list[Mistake]]:
    """Return the document of a file, and the keys that stand twice. Raises FileInvalid."""
    try:
        document = read_yaml(text)
    except NotYaml as error:
        raise FileInvalid([Mistake.at(name, error.mark or Mark(1, 1), error.message)]) from None
    return document, [
        Mistake.at(name, mark, f"the key {quoted(key)} stands twice here") for key, mark in document.repeated
    ]
