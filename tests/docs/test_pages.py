"""README and the pages of `docs/`: their length, links, commands, paths, settings and endpoints."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from itertools import takewhile
from pathlib import Path
from textwrap import dedent

import click
import pytest

from ci_daemon.command import root_command
from ci_daemon.config import load
from ci_daemon.config.keys import sections
from ci_daemon.config.reference import with_reference
from storage import BuildErrorCode, JobErrorCode
from tests.api.conformity import conformity

CHECKOUT = Path(__file__).parents[2]
ORGANIZATION = "/api/v0/organizations/{org}"
README = CHECKOUT / "README.md"
PAGES = [README, *sorted((CHECKOUT / "docs").rglob("*.md")), *sorted((CHECKOUT / "examples").rglob("*.md"))]
MOST_LINES_OF_README = 90
PACKAGES = ("actors", "api", "benchmarks", "ci_daemon", "docs", "examples", "storage", "systemd", "tests")
COMMAND = re.compile(r"(?:sudo )?(?:[A-Z_]+=\S* )*(?:\S*/)?ci-daemon(?: (?P<arguments>[^&|;<>#]+))?(?=$| *[&|;<>#])")

every_page = pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(CHECKOUT)))


def without_fences(text: str) -> str:
    return re.sub(r"^```.*?^```$", "", text, flags=re.DOTALL | re.MULTILINE)


def without_code(text: str) -> str:
    """Return a page without its fenced and indented blocks."""
    return re.sub(r"^ {4,}.*$", "", without_fences(text), flags=re.MULTILINE)


def code_spans(text: str) -> list[str]:
    """Return the texts between backticks, each on one line."""
    return [" ".join(span.split()) for span in re.findall(r"`([^`]+)`", without_code(text))]


def code_lines(text: str) -> list[str]:
    """Return the lines of the indented blocks and of the fenced ones without a language."""
    fenced = re.findall(r"^```\n(.*?)^```$", text, flags=re.DOTALL | re.MULTILINE)
    indented = re.findall(r"^(?: {4,})(.+)$", text, flags=re.MULTILINE)
    return [line.strip() for block in (*fenced, *indented) for line in block.splitlines()]


def anchors(text: str) -> set[str]:
    """Return the anchors of a page's headings, as GitHub makes them."""
    headings = re.findall(r"^#+ (.+)$", without_fences(text), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


def links(text: str) -> list[str]:
    return re.findall(r"\]\(([^)\s]+)\)", without_code(text))


def command_lines(text: str) -> Iterator[str]:
    """Yield the arguments of each ``ci-daemon`` on a page; "" if it is only named."""
    for code in (*code_spans(text), *code_lines(text)):
        for part in re.split(r"&& ", code):
            if called := COMMAND.match(part.strip()):
                yield called["arguments"] or ""


def endpoints(text: str, prefix: str) -> Iterator[tuple[str, str]]:
    """Yield method and path of each endpoint in the tables of a text."""
    for methods, cell in re.findall(r"^\| ([A-Z, ]+) \| ([^|]+) \|", text, re.MULTILINE):
        yield from ((method, prefix + path) for path in code_spans(cell) for method in methods.split(", "))


def misuse(arguments: str) -> str | None:
    """Return click's error for a command line: an unknown command or option, or an excess argument."""
    words = list(takewhile(lambda word: word != "--", (word.strip("[]") for word in shlex.split(arguments))))
    command: click.Command = root_command()
    context = click.Context(command, info_name="ci-daemon")
    try:
        while words:
            # The parser alone converts no value, asks for no file and runs nothing.
            parser = command.make_parser(context)
            _, words, _ = parser.parse_args(words)
            if not isinstance(command, click.Group):
                return f"an argument too many: {' '.join(words)}" if words else None
            if words:
                command = command.commands[words[0]]
                context = click.Context(command, parent=context, info_name=words.pop(0))
    except KeyError as unknown:
        return f"no command {unknown}"
    except click.UsageError as error:
        return error.format_message()
    return None


def test_readme_is_one_page():
    assert len(README.read_text().splitlines()) <= MOST_LINES_OF_README


@every_page
def test_relative_links_resolve(page: Path):
    for link in links(page.read_text()):
        target, _, anchor = link.partition("#")
        if re.match(r"[a-z]+:", link):
            continue
        file = (page.parent / target).resolve() if target else page
        assert file.exists(), link
        assert not anchor or anchor in anchors(file.read_text()), link


@pytest.mark.parametrize("page", [page for page in PAGES if page.name != "commands.md"], ids=lambda page: page.name)
def test_commands_and_options_exist(page: Path):
    wrong = {line: fault for line in command_lines(page.read_text()) if (fault := misuse(line))}
    assert not wrong


@pytest.mark.parametrize("line", ["staus", "build lst ORG/PIPELINE", "status --jsn", "submit DIR DIR", "--stat X init"])
def test_a_wrong_command_line_is_seen(line: str):
    assert misuse(line)


def test_command_lines_are_found():
    text = (
        "Run `ci-daemon a`, or `sudo ci-daemon b <file`:\n\n    X=y v/bin/ci-daemon c & # d\n    cd e && ci-daemon f\n"
    )
    assert [each.strip() for each in command_lines(text)] == ["a", "b", "c", "f"]


@every_page
def test_make_targets_exist(page: Path):
    targets = set(re.findall(r"^([a-z-]+):", (CHECKOUT / "Makefile").read_text(), re.MULTILINE))
    text = page.read_text()
    # In a pipeline, make belongs to the project that is built.
    if page.name != "pipelines.md":
        called = [code.split("#")[0] for code in (*code_spans(text), *code_lines(text)) if code.startswith("make ")]
        assert {target for code in called for target in code.split()[1:] if "=" not in target} <= targets


@every_page
def test_paths_of_the_checkout_exist(page: Path):
    named = [span for span in code_spans(page.read_text()) if re.match(rf"({'|'.join(PACKAGES)})/[\w./-]*$", span)]
    assert not [path for path in named if not (CHECKOUT / path).exists()]


@every_page
def test_settings_exist(page: Path):
    keys = {f"{section.name}.{key.name}" for section in sections() for key in section.keys}
    tables = {section.name for section in sections()} | {"jobs.env"}
    roots = {table.partition(".")[0] for table in tables}
    named = (re.split(r"[ =]", span)[0].strip("[]") for span in code_spans(page.read_text()))
    dotted = (each for each in named if re.fullmatch(r"[a-z_]+(\.[a-z_]+)+", each))
    assert not [each for each in dotted if each.partition(".")[0] in roots and each not in keys | tables]


def test_the_endpoints_are_the_served_ones():
    """The paths of the first table are below an organization; the second has whole paths."""
    below, whole = (CHECKOUT / "docs" / "using-the-api.md").read_text().split("| Method | Whole path |")
    served = {(method.upper(), path) for path, methods in conformity().document["paths"].items() for method in methods}
    assert {*endpoints(below, ORGANIZATION), *endpoints(whole, "")} == served


def configurations(text: str) -> list[str]:
    """Return the blocks of a page that are a part of `ci-daemon.toml`, indented or fenced."""
    indented = re.findall(r"^ {4}\[[a-z_.]+\]\n(?:(?: {4}.*)?\n)*", text, re.MULTILINE)
    return [
        dedent(block) for block in (*indented, *re.findall(r"^ *```toml\n(.*?)^ *```", text, re.DOTALL | re.MULTILINE))
    ]


@every_page
def test_configurations_are_valid(page: Path, tmp_path: Path):
    for block in configurations(page.read_text()):
        (tmp_path / "ci-daemon.toml").write_text(block)
        load(tmp_path, {}, tmp_path / "none")


def test_every_error_code_of_jobs_and_builds_is_explained():
    text = (CHECKOUT / "docs" / "pipelines.md").read_text()
    _, jobs, builds = re.split(r"^\| (?:Job|Build) \| Meaning \|.*$", text, flags=re.MULTILINE)
    for table, codes in ((jobs, JobErrorCode), (builds, BuildErrorCode)):
        rows = "".join(takewhile(lambda line: line != "\n", table.lstrip("\n").splitlines(keepends=True)))
        assert sorted(re.findall(r"^\| `(\w+)` \| [^|]+\. \| [^|]+\. \|$", rows, re.MULTILINE)) == sorted(codes)


def test_configuration_page_is_current():
    page = (CHECKOUT / "docs" / "configuration.md").read_text()
    assert page == with_reference(page), "run `make docs`"


def test_no_word_of_the_changelog_is_doubled():
    """It is the changelog of the Debian package, whose check refuses that."""
    text = (CHECKOUT / "CHANGELOG.md").read_text()
    assert re.findall(r"\b([a-z]+)\s+\1\b", text, re.IGNORECASE) == []
