from __future__ import annotations

import io
from datetime import timedelta
from typing import Any

from api.operations import BuildRecord, JobRecord
from api.operations.billing import Transaction
from ci_daemon.submit.events import BuildUpdated, Event, FollowStarted, JobUpdated, LogLine
from ci_daemon.submit.screen import Screen
from ci_daemon.submit.summary import Summary, summarize
from storage import LedgerSource
from tests.shown import START, shown_build, shown_job


class Terminal(io.StringIO):
    """A stream that claims to be a terminal."""

    def isatty(self) -> bool:
        return True


def job(key: str, state: str = "running", seconds: float | None = None, **fields: Any) -> JobRecord:
    finished = None if seconds is None else START + timedelta(seconds=seconds)
    return shown_job(key, state, finished_at=finished, **fields)


def build(state: str = "running", **fields: Any) -> BuildRecord:
    return shown_build(state, **fields)


def shown(*events: Event, stream: io.StringIO | None = None) -> str:
    stream = stream or io.StringIO()
    screen = Screen(stream)
    for event in events:
        screen.show(event)
    return stream.getvalue()


def test_names_stand_in_a_column_as_wide_as_the_widest():
    lint, install = job("lint"), job("install")
    assert (
        shown(FollowStarted(build(), (lint, install)), LogLine(lint, "a"), LogLine(install, "b"))
        == "lint    | a\ninstall | b\n"
    )


def test_line_of_a_service_begins_with_job_and_service() -> None:
    """The column is as wide as the longest of them."""
    test = job("test", services=("db",))
    assert (
        shown(FollowStarted(build(), (test,)), LogLine(test, "a"), LogLine(test, "ready", "db"))
        == "test    | a\ntest db | ready\n"
    )


def test_a_very_long_name_is_cut():
    long = job("x" * 100)
    assert shown(FollowStarted(build(), (long,)), LogLine(long, "a")) == f"{'x' * 31}… | a\n"


def test_states_say_their_reason():
    assert shown(
        JobUpdated(job("a", "pending")),
        JobUpdated(job("a", "scheduled", pending_reason="waiting for a VM: host is full (4 of 4)")),
        JobUpdated(job("a", "passed", 61)),
        JobUpdated(job("a", "failed", 3700, exit_code=2)),
        JobUpdated(job("a", "failed", error_code="image_not_found", error_message="no image x")),
        JobUpdated(job("a", "timed_out", 5, error_code="step_timeout")),
        JobUpdated(job("a", "failed", 1, exit_code=1, soft_failed=True)),
        BuildUpdated(build("failing")),
        BuildUpdated(build("scheduled", pending_reason="waiting for approval: eve may not push")),
    ).splitlines() == [
        "a     | * scheduled: waiting for a VM: host is full (4 of 4)",
        "a     | * passed in 1 min 1 s",
        "a     | * failed in 1 h 1 min: exit code 2",
        "a     | * failed: image_not_found: no image x",
        "a     | * timed out in 5.0 s: step_timeout",
        "a     | * failed in 1.0 s (soft: the build goes on): exit code 1",
        "build | * failing",
        "build | * scheduled: waiting for approval: eve may not push",
    ]


def test_without_a_terminal_there_is_no_escape_sequence():
    assert "\x1b" not in shown(LogLine(job("a"), "\x1b[31mred\x1b[0m \x1b[2Jgone \x1b]0;title\x07\x9b31m plain"))


def test_a_terminal_gets_the_logs_colours_but_no_cursor_moves(monkeypatch: Any):
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.delenv("NO_COLOR", raising=False)
    out = shown(LogLine(job("a"), "\x1b[31mred\x1b[0m \x1b[2Jgone \x1b7\x08\x07"), stream=Terminal())
    assert "\x1b[31mred" in out
    out += shown(LogLine(job("a"), "\x1b\x1b[mc"), stream=Terminal())
    for harmful in ("\x1bc", "\x1b[2J", "\x1b7", "\x08", "\x07"):
        assert harmful not in out


def test_long_lines_are_not_broken():
    assert shown(LogLine(job("a"), "x" * 1000)).splitlines() == [f"a     | {'x' * 1000}"]


def test_markup_in_a_log_is_text():
    assert "[bold]:smile: [/x]" in shown(LogLine(job("a"), "[bold]:smile: [/x]"))


def summary(*debits: Transaction, state: str = "passed") -> Summary:
    ended = build(
        state, finished_at=START + timedelta(seconds=90), error_message="because" if state == "failed" else None
    )
    return summarize(ended, [job("a", "passed", 2), job("b", "skipped")], "demo", debits)


def debit(cents: int, description: str | None) -> Transaction:
    return Transaction("", -cents, LedgerSource.VM_LEASE_DEBIT, START, description)


def test_costs_are_the_debits_that_name_the_job_and_no_others():
    found = summary(debit(4, "demo #3 a"), debit(9, "demo #2 a"), debit(9, "other #3 a"), debit(9, None))
    assert [row.cents for row in found.rows] == [4, 0]
    assert found.cents == 4


def test_the_summary_is_a_table_and_a_last_line():
    stream = io.StringIO()
    Screen(stream).summarize(summary(debit(4, "demo #3 a")))
    assert [line.split() for line in stream.getvalue().splitlines()] == [
        [],
        ["job", "state", "time", "cents"],
        ["a", "passed", "2.0", "s", "4"],
        ["b", "skipped", "0"],
        [],
        ["build", "#3", "passed", "in", "1", "min", "30", "s,", "4", "cents"],
    ]


def test_a_failed_builds_reason_is_in_the_last_line():
    stream = io.StringIO()
    Screen(stream).summarize(summary(state="failed"))
    assert stream.getvalue().endswith("build #3 failed in 1 min 30 s, 0 cents: because\n")


def test_one_cent_is_not_called_cents():
    stream = io.StringIO()
    Screen(stream).summarize(summary(debit(1, "demo #3 a")))
    assert stream.getvalue().endswith(" 30 s, 1 cent\n")


def test_a_build_without_jobs_has_its_whole_reason_and_no_table():
    message = "render failed (exit 1): Traceback\n  File\x1b[2J x\nTypeError: no"
    ended = build("failed", finished_at=START + timedelta(seconds=2), error_message=message)
    stream = io.StringIO()
    Screen(stream).summarize(Summary(ended, ()))
    assert stream.getvalue().splitlines() == [
        "",
        "build #3 failed in 2.0 s: render failed (exit 1): Traceback",
        "  File[2J x",
        "TypeError: no",
    ]
