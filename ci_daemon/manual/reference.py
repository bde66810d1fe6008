"""The reference of all commands as a page of the docs."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from ci_daemon.command.support.exit_codes import ExitCode
    from ci_daemon.manual.pages import CommandPage

_OPENING = """\
# Commands

All commands of `ci-daemon`, as their `--help` describes them; `man ci-daemon` shows the same in a terminal. `make docs`
renews this page.

Every command has `--json`, which prints one document, `--quiet`, which prints only errors, and `--help`. On a terminal,
output has colours unless `NO_COLOR` is set, and the program of `PAGER` shows what is longer than the terminal.
"""


def reference(
    pages: Sequence[CommandPage], headings: Mapping[str, Sequence[str]], exit_codes: Mapping[ExitCode, str]
) -> str:
    """Return the page in Markdown."""
    by_words = {page.words: page for page in pages}
    return "\n".join(
        [
            _OPENING,
            "## Exit codes\n",
            "| Code | Meaning |",
            "|---|---|",
            *(f"| {code} | {text} |" for code, text in exit_codes.items()),
            "",
            *(line for heading, names in headings.items() for line in _section(heading, [by_words[n] for n in names])),
        ]
    )


def _section(heading: str, pages: Sequence[CommandPage]) -> Iterator[str]:
    yield f"## {heading}\n"
    for page in pages:
        yield f"### {page.words}\n"
        yield f"    ci-daemon {page.words} {page.usage}\n"
        for paragraph in page.paragraphs:
            yield "".join(f"    {line}\n" for line in paragraph.split("\n")) if "\n" in paragraph else f"{paragraph}\n"
        options = [option for option in page.options if option.names[0] not in {"--json", "--quiet", "--help"}]
        if options:
            yield "| Option | Description |"
            yield "|---|---|"
            yield from (f"| `{_cell(option.form)}` | {_cell(option.help)} |" for option in options)
            yield ""


def _cell(text: str) -> str:
    return text.replace("|", "\\|")
