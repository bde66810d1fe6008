"""Coverage reports: Cobertura and JaCoCo in XML, LCOV, and the profiles of Go; pure."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING
from xml.parsers import expat

from storage import immutable, pattern

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

_MOST_FILES = 20_000
_MOST_LINES = 2_000_000
_LAST_LINE = 200_000
"""The last line of a file that counts: its mask has as many bits."""

_LONGEST_PATH = 400
HEAD = 4096
"""The first bytes of a file, which have the first element of a report."""

_BLANK = b"\xef\xbb\xbf \t\r\n"
_GO_BLOCK = pattern(r"(.{1,400}):(\d{1,7})\.\d{1,7},(\d{1,7})\.\d{1,7} \d{1,7} (\d{1,18})", re.ASCII)
_RUN = pattern("1+")
_NUMBER = pattern(r"\d{1,18}", re.ASCII)


class NotCoverage(Exception):
    """A file that is no report of coverage."""


class CoverageUnreadable(NotCoverage):
    """A file that may be a report of coverage, but cannot be read as one; the message says why."""


@immutable
class FileCoverage:
    """The lines of a file that can run, and those of them that did: bit N stands for line N."""

    lines: int
    covered: int

    @property
    def count(self) -> int:
        """The number of lines that can run."""
        return self.lines.bit_count()

    @property
    def hits(self) -> int:
        """The number of lines that ran."""
        return self.covered.bit_count()

    def __or__(self, other: FileCoverage) -> FileCoverage:
        """Return what two reports say together: a line that ran in one of them is covered."""
        return FileCoverage(self.lines | other.lines, self.covered | other.covered)

    def __and__(self, lines: int) -> FileCoverage:
        """Return the coverage of some lines alone."""
        return FileCoverage(self.lines & lines, self.covered & lines)


def may_be_coverage(head: bytes) -> bool:
    """Tell by the first bytes of a file whether it is worth reading."""
    head = head.lstrip(_BLANK)
    if head.startswith(b"<"):
        return b"<coverage" in head or b"<report" in head
    return head.startswith((b"mode: ", b"TN:", b"SF:"))


def read_coverage(content: bytes) -> Mapping[str, FileCoverage]:
    """Return the coverage of each file by the name that the report has for it. Raises NotCoverage.

    Time and memory grow with the content alone. A document that declares entities is refused.
    """
    head, lines = content[:HEAD].lstrip(_BLANK), _Lines()
    if head.startswith(b"<"):
        _read_xml(content, lines)
    elif head.startswith(b"mode: "):
        _read_go(content, lines)
    elif head.startswith((b"TN:", b"SF:")):
        _read_lcov(content, lines)
    else:
        raise NotCoverage("it begins as no report of coverage")
    return lines.files()


class _Lines:
    """The lines of files, as a report names them one by one."""

    def __init__(self) -> None:
        self._files: dict[str, tuple[set[int], set[int]]] = {}
        self._left = _MOST_LINES

    def add(self, path: str, line: int, *, covered: bool) -> None:
        """Take a line. Raises CoverageUnreadable if there are too many."""
        if not path or len(path) > _LONGEST_PATH or not 0 < line <= _LAST_LINE:
            return
        known = self._files.get(path)
        if known is None:
            if len(self._files) >= _MOST_FILES:
                raise CoverageUnreadable(f"it has more than {_MOST_FILES:,} files")
            known = self._files[path] = (set(), set())
        self._left -= 1
        if self._left < 0:
            raise CoverageUnreadable(f"it names more than {_MOST_LINES:,} lines")
        known[0].add(line)
        if covered:
            known[1].add(line)

    def files(self) -> Mapping[str, FileCoverage]:
        """Return the coverage of all files."""
        return {path: FileCoverage(mask_of(lines), mask_of(hit)) for path, (lines, hit) in self._files.items()}


def mask_of(lines: set[int]) -> int:
    """Return the number in which bit N is set for each line N."""
    if not lines:
        return 0
    bits = bytearray(max(lines) // 8 + 1)
    for line in lines:
        bits[line >> 3] |= 1 << (line & 7)
    return int.from_bytes(bits, "little")


def lines_of(mask: int) -> Iterator[tuple[int, int]]:
    """Yield the first and last line of each run of lines in a mask. Linear in the highest line."""
    for run in _RUN.finditer(f"{mask:b}"[::-1]):
        yield run.start(), run.end() - 1


def _number(text: str) -> int:
    return int(text) if _NUMBER.fullmatch(text) else 0


def _read_lcov(content: bytes, lines: _Lines) -> None:
    path = ""
    for record in content.decode(errors="replace").splitlines():
        kind, _, value = record.partition(":")
        if kind == "SF":
            path = value.strip()
        elif kind == "DA":
            line, _, hits = value.partition(",")
            lines.add(path, _number(line), covered=_number(hits.partition(",")[0].strip()) > 0)
        elif kind == "end_of_record":
            path = ""


def _read_go(content: bytes, lines: _Lines) -> None:
    """Take each line of a block; a line of several blocks ran if one of them did."""
    for record in content.decode(errors="replace").splitlines()[1:]:
        found = _GO_BLOCK.fullmatch(record)
        if found is None:
            continue
        path, first, last, hits = found.groups()
        for line in range(int(first), min(int(last), _LAST_LINE) + 1):
            lines.add(path, line, covered=int(hits) > 0)


def _read_xml(content: bytes, lines: _Lines) -> None:
    reader = _XmlReader(lines)
    parser = expat.ParserCreate()
    parser.StartDoctypeDeclHandler = reader.doctype
    parser.EntityDeclHandler = reader.entity
    parser.StartElementHandler = reader.start
    parser.EndElementHandler = reader.end
    try:
        parser.Parse(content, True)  # noqa: FBT003 - expat's signature: it is the whole document
    except (expat.ExpatError, LookupError, ValueError) as error:  # the last two are of encodings
        if reader.kind:
            raise CoverageUnreadable(f"it is no XML: {error}") from None
        raise NotCoverage("it is no XML") from None


class _XmlReader:
    """The state between the elements of Cobertura's or JaCoCo's document.

    Both name a document type, which nobody fetches; one that declares something itself is refused.
    """

    def __init__(self, lines: _Lines) -> None:
        self.kind = ""
        self._lines = lines
        self._path = ""
        self._package = ""
        self._in_method = False

    def doctype(self, name: str, _system: str | None, _public: str | None, has_declarations: int) -> None:
        if has_declarations:
            known = name in {"coverage", "report"}
            raise (CoverageUnreadable if known else NotCoverage)("its document type has declarations")

    def entity(self, *_: object) -> None:
        raise CoverageUnreadable("it declares entities")

    def start(self, name: str, attributes: dict[str, str]) -> None:
        if not self.kind:
            if name not in {"coverage", "report"}:
                raise NotCoverage("its first element is neither <coverage> nor <report>")
            self.kind = name
        elif self.kind == "coverage":
            self._cobertura(name, attributes)
        else:
            self._jacoco(name, attributes)

    def _cobertura(self, name: str, attributes: dict[str, str]) -> None:
        if name == "class":
            self._path = attributes.get("filename", "").replace("\\", "/")
        elif name == "method":
            self._in_method = True  # its lines are among those of its class, too
        elif name == "line" and not self._in_method:
            covered = _number(attributes.get("hits", "")) > 0
            self._lines.add(self._path, _number(attributes.get("number", "")), covered=covered)

    def _jacoco(self, name: str, attributes: dict[str, str]) -> None:
        if name == "package":
            self._package = attributes.get("name", "")
        elif name == "sourcefile":
            self._path = f"{self._package}/{attributes.get('name', '')}".lstrip("/")
        elif name == "line":
            covered = _number(attributes.get("ci", "")) > 0
            self._lines.add(self._path, _number(attributes.get("nr", "")), covered=covered)

    def end(self, name: str) -> None:
        if name == "method":
            self._in_method = False
        elif name in {"class", "sourcefile"}:
            self._path = ""
