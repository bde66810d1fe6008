"""The manual page, in the language of man(7)."""

from __future__ import annotations

import re
import textwrap
from typing import TYPE_CHECKING

from storage import immutable

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from datetime import date

    from ci_daemon.command.support.exit_codes import ExitCode
    from ci_daemon.manual.pages import CommandPage

_WIDTH = 70
_JOINT = "\0"
_QUOTED = re.compile(r"`([^`]+)`")

_ENVIRONMENT = {
    "CI_DAEMON_URL, CI_DAEMON_TOKEN": "The address of a service elsewhere, and the API key for it.",
    "CI_DAEMON_STATE_DIR": "The state directory, as `--state-dir`.",
    "NO_COLOR": "Not empty: no colours. Without a terminal there are none either.",
    "PAGER": "The program that shows what is longer than the terminal; `less` by default, and `cat` shows all at once.",
}
_FILES = {
    "/etc/ci-daemon/ci-daemon.toml": "The configuration of the installed service.",
    "/var/lib/ci-daemon": "Its state directory.",
}


@immutable
class Edition:
    """The version that a page describes, and its day."""

    version: str
    date: date


def manual_page(
    pages: Sequence[CommandPage],
    headings: Mapping[str, Sequence[str]],
    exit_codes: Mapping[ExitCode, str],
    edition: Edition,
) -> str:
    """Return the whole manual: the program, all commands below their headings, exit codes and environment."""
    by_words = {page.words: page for page in pages}
    return "\n".join(
        [
            *_opening(by_words[""], edition),
            *(line for heading, names in headings.items() for line in _section(heading, [by_words[n] for n in names])),
            ".SH EXIT STATUS",
            *(line for code, text in exit_codes.items() for line in _entry(str(code), text)),
            ".SH ENVIRONMENT",
            "Every key of the configuration has a variable, such as CI_DAEMON_HTTP_LISTEN.",
            *(line for name, text in _ENVIRONMENT.items() for line in _entry(name, text)),
            ".SH FILES",
            *(line for name, text in _FILES.items() for line in _entry(name, text)),
            "",
        ]
    )


def _opening(program: CommandPage, edition: Edition) -> Iterator[str]:
    yield f'.TH CI\\-DAEMON 1 {edition.date} "ci\\-daemon {_plain(edition.version)}" "User Commands"'
    yield ".SH NAME"
    yield rf"ci\-daemon \- {_text(program.paragraphs[0].rstrip('.'))}"
    yield ".SH SYNOPSIS"
    yield ".B ci\\-daemon"
    yield _text(program.usage)
    yield ".SH DESCRIPTION"
    yield from _paragraphs(program.paragraphs[1:])
    yield ".SH OPTIONS"
    yield from _options(program)


def _section(heading: str, pages: Sequence[CommandPage]) -> Iterator[str]:
    yield f'.SH "{heading.upper()}"'
    for page in pages:
        yield f'.SS "ci\\-daemon {_plain(page.words)}"'
        yield f".B ci\\-daemon {_plain(page.words)}"
        yield _text(page.usage)
        yield from (line for text in _paragraphs(page.paragraphs) for line in (".PP", text))
        yield from _options(page)


def _paragraphs(paragraphs: Sequence[str]) -> Iterator[str]:
    for each in paragraphs:
        yield f".nf\n{_lines(each.split(chr(10)))}\n.fi" if "\n" in each else _text(each)


def _options(page: CommandPage) -> Iterator[str]:
    for each in page.options:
        yield from _entry(each.form, each.help)


def _entry(name: str, text: str) -> Iterator[str]:
    yield ".TP"
    yield f".B {_plain(name)}"
    yield _text(text)


def _text(text: str) -> str:
    """Return prose, in lines as short as troff's style asks for."""
    joined = _QUOTED.sub(lambda quoted: quoted[0].replace(" ", _JOINT), text)
    wrapped = textwrap.wrap(joined, _WIDTH, break_long_words=False, break_on_hyphens=False)
    return _lines([line.replace(_JOINT, " ") for line in wrapped])


def _lines(lines: Sequence[str]) -> str:
    """Return lines as they are; words in backquotes are bold."""
    return "\n".join(_QUOTED.sub(r"\\fB\1\\fR", _plain(line)) for line in lines)


def _plain(text: str) -> str:
    """Escape what troff would read as its own: backslashes, hyphens, and a dot or quote at the beginning."""
    escaped = text.replace("\\", r"\e").replace("-", r"\-").replace("'", r"\(aq").replace("^", r"\(ha")
    return rf"\&{escaped}" if escaped.startswith(".") else escaped
