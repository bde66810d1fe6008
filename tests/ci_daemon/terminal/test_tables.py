"""Tables on terminals of any width, and in pipes."""

from __future__ import annotations

import io
import re
from datetime import UTC, datetime, timedelta

import pytest
from rich.cells import cell_len
from rich.console import Console

from ci_daemon.terminal.tables import DocumentTable, fit_widths, print_renderable, property_table
from ci_daemon.terminal.text import relative_time
from tests.api.openapi.test_operation_names import OPERATIONS

COLUMNS = ("id", "state", "branch", "commit", "created_at", "took_seconds", "note")
NOW = datetime.now(UTC)
NOTE = "the disk of the host was nearly full when 测试报告🚀 of this build was written to it"


def document(**fields: object) -> dict[str, object]:
    return {
        "id": "5f0c7c1e",
        "state": "failed",
        "branch": "feature/a-very-long-name-that-nobody-would-want-to-type-twice",
        "commit": "0123456789abcdef0123456789abcdef01234567",
        "created_at": (datetime.now(UTC) - timedelta(minutes=3, seconds=9)).isoformat(),
        "took_seconds": 187.4,
        "note": NOTE,
        **fields,
    }


def drawn(
    width: int,
    *documents: dict[str, object],
    columns: tuple[str, ...] = COLUMNS,
    optional: tuple[str, ...] = (),
) -> list[str]:
    screen = io.StringIO()
    Console(file=screen, width=width, emoji=False, highlight=False).print(DocumentTable(documents, columns, optional))
    return screen.getvalue().splitlines()


@pytest.mark.parametrize("width", [80, 100, 132, 200])
def test_only_wide_columns_give_way_and_no_word_is_broken(width: int):
    lines = drawn(width, document(), document(state="passed", note="fine"))
    assert max(map(cell_len, lines)) <= width
    text = " ".join(lines)
    for whole in ("5f0c7c1e", "failed", "passed", "0123456789", "3 min ago", "3 min 7 s"):
        assert whole in text
    known = set(f"{NOTE} fine id state branch commit created took note 3 min ago 7 s".split())
    known |= {"5f0c7c1e", "failed", "passed", "0123456789", document()["branch"]}
    broken = [word for word in text.split() if word not in known and "…" not in word]
    assert [word for word in broken if word.isascii()] == [], "Chinese may be broken anywhere"


def test_a_name_that_is_cut_keeps_both_its_ends():
    line = drawn(80, document(note="fine"))[1]
    assert re.search(r"  feature/\S+…\S*type-twice  ", line)


@pytest.mark.parametrize("width", [80, 100])
def test_the_names_of_operations_are_shown_whole(width: int):
    columns = ("at", "actor", "origin", "action", "subject", "note")
    names = sorted(OPERATIONS.values(), key=len)[-5:]
    given = {
        "at": (datetime.now(UTC) - timedelta(minutes=59, seconds=30)).isoformat(),
        "actor": "somebody@long.example.org",
        "origin": "uid 0, /dev/pts/12, 2001:db8::1:2:3",
        "subject": "organizations/acme/pipelines/web/secrets/DEPLOYMENT_TOKEN",
        "note": "--no-fail-fast --weight 2",
    }
    lines = drawn(width, *({**given, "action": name} for name in names), columns=columns)
    assert max(map(cell_len, lines)) <= width
    assert [name for line in lines for name in line.split() if name in names] == names


def test_columns_that_say_nothing_go_first():
    columns = ("id", "note", "expires_at", "last_used_at", "created_at")
    empty = {"expires_at": None, "last_used_at": None}
    assert "expires" in drawn(200, document(**empty), columns=columns)[0]
    [heading, row] = drawn(80, document(**empty, note="x" * 60), columns=columns)
    assert heading.split() == ["id", "note", "created"]
    assert "3 min ago" in row


@pytest.mark.parametrize(("width", "left"), [(80, {"note", "branch"}), (66, {"branch"}), (50, set())])
def test_optional_columns_go_one_by_one_before_others_are_cut(width: int, left: set[str]):
    [heading, row] = drawn(width, document(note="x" * 12), optional=("note", "branch"))
    assert set(heading.split()) == {"id", "state", "commit", "created", "took"} | left
    for whole in ("5f0c7c1e", "failed", "0123456789", "3 min ago", "3 min 7 s"):
        assert whole in row


def test_a_row_is_a_block_where_its_name_would_be_cut():
    columns = ("id", "provider", "event", "url", "created_at", "state", "attempts")
    name = "b491d811-c37c-48fb-bdd7-749c0ccc35ac"
    row = {"provider": "git", "event": "push", "url": "https://example.org/acme/web.git", "attempts": None}
    lines = [line.rstrip() for line in drawn(80, *[document(id=name, **row)] * 2, columns=columns)]
    block = [f"id        {name}", "provider  git", "event     push", f"url       {row['url']}", "created   3 min ago"]
    assert lines == [*block, "state     failed", "", *block, "state     failed"]


@pytest.mark.parametrize(
    ("widths", "room", "given"),
    [
        ([8, 9, 7], 40, [8, 9, 7]),
        ([8, 60, 30], 68, [8, 30, 30]),
        ([36, 60, 9], 60, [36, 15, 9]),
        ([36, 11, 20], 60, [36, 11, 13]),
        ([36, 11, 20], 54, [36, 10, 8]),
        ([36, 11, 20], 40, [24, 8, 8]),
        ([36, 11, 20], 10, [8, 8, 8]),
    ],
)
def test_the_widest_column_gives_way_and_the_first_last(widths: list[int], room: int, given: list[int]):
    assert fit_widths(widths, room) == given


@pytest.mark.parametrize(
    ("room", "given"), [(70, [10, 20, 20, 20]), (50, [10, 10, 20, 10]), (40, [8, 8, 16, 8]), (9, [8, 8, 8, 8])]
)
def test_a_column_to_be_whole_gives_way_after_all_others(room: int, given: list[int]):
    assert fit_widths([10, 20, 20, 20], room, whole={2}) == given


def test_commits_times_and_durations_are_short():
    [heading, row] = drawn(200, document(branch="main", note=None))
    assert heading.split() == ["id", "state", "branch", "commit", "created", "took", "note"]
    assert row.split()[1:] == ["failed", "main", "0123456789", "3", "min", "ago", "3", "min", "7", "s"]


def test_control_characters_do_not_reach_the_terminal():
    [_, row] = drawn(200, document(branch="\x1b[31mred\x07\u202e", note="two\nlines"))
    assert row.isprintable()


def test_in_a_pipe_a_row_is_one_line_without_colours(capsys: pytest.CaptureFixture[str]):
    print_renderable(DocumentTable([document(note="long " * 500)], COLUMNS))
    [heading, row] = capsys.readouterr().out.splitlines()
    assert row.endswith("long long")
    assert "\x1b" not in row
    assert "feature/a-very-long-name-that-nobody-would-want-to-type-twice" in row
    assert heading == heading.rstrip()


def test_a_property_keeps_the_lines_of_its_text(capsys: pytest.CaptureFixture[str]):
    """A traceback is readable, and no line of it can pass as a property."""
    print_renderable(property_table({"name": "x", "error_message": "Traceback:\n  File \x1b[2J\nname  y", "number": 1}))
    assert capsys.readouterr().out.splitlines() == [
        "name           x",
        "error message  Traceback:",
        "                 File  [2J",
        "               name  y",
        "number         1",
    ]


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0, "0 s ago"),
        (42, "42 s ago"),
        (3599, "59 min ago"),
        (7300, "2 h ago"),
        (90_000, "1 d ago"),
        (-300, "in 5 min"),
    ],
)
def test_an_instant_is_shown_in_its_largest_unit(seconds: int, text: str):
    assert relative_time(NOW - timedelta(seconds=seconds), NOW) == text


def test_a_list_is_shown_as_people_write_one():
    lines = drawn(80, {"id": "1", "events": ["build.failed", "build.recovered"]}, columns=("id", "events"))
    assert lines[1].split(maxsplit=1) == ["1", "build.failed, build.recovered"]
