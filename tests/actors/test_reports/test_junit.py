"""Test reports in JUnit's XML."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from actors.test_reports import CaseOutcome, NotReport, read_report
from actors.test_reports.junit import ReportUnreadable, read_confined
from storage.files import Bounds, Confinement

REPORT = b"""<?xml version="1.0"?>
<testsuites><testsuite name="outer">
<testcase classname="tests.test_a" name="adds" time="0.012"/>
<testcase name="breaks" time="1,002.5"><failure message="expected 1">Trace &lt;b&gt;</failure>
<system-out>hello</system-out></testcase>
<testcase name="errs"><error>boom</error></testcase>
<testcase name="waits" time="x"><skipped message="later"/></testcase>
</testsuite></testsuites>"""


def test_a_report_has_outcomes_times_and_outputs():
    adds, breaks, errs, waits = read_report(REPORT).cases
    assert (adds.suite, adds.name, adds.seconds, adds.outcome) == ("tests.test_a", "adds", 0.012, CaseOutcome.PASSED)
    assert (breaks.suite, breaks.seconds, breaks.outcome) == ("outer", 1002.5, CaseOutcome.FAILED)
    assert breaks.output == "expected 1\nTrace <b>\nhello"
    assert (errs.outcome, errs.output) == (CaseOutcome.FAILED, "boom")
    assert (waits.outcome, waits.output, waits.seconds) == (CaseOutcome.SKIPPED, "later", 0.0)


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"not xml",
        b"<html/>",
        b"<testsuite>",
        b'<!DOCTYPE x [<!ENTITY a "b">]><testsuite/>',
        '<?xml version="1.0" encoding="utf-16"?><!DOCTYPE x [<!ENTITY a SYSTEM "file:///etc/passwd">]><testsuite/>'.encode(
            "utf-16"
        ),
    ],
)
def test_other_files_are_refused(content: bytes):
    with pytest.raises(NotReport):
        read_report(content)


def test_a_long_output_is_cut():
    (case,) = read_report(
        b"<testsuite><testcase><failure>" + b"x" * 100_000 + b"</failure></testcase></testsuite>"
    ).cases
    assert len(case.output) <= 8192


def test_deep_and_odd_reports_are_read():
    deep = b"<testsuite>" * 1000 + b'<testcase name="in"/>' + b"</testsuite>" * 1000
    assert [case.name for case in read_report(deep).cases] == ["in"]
    assert read_report(b"<testsuite><failure/></testsuite>").cases == ()


@pytest.mark.parametrize("encoding", ["utf-7", "no-such", "rot13", "undefined", "idna", "utf-32", "hex", "x" * 500])
def test_a_report_of_an_odd_encoding_is_unreadable_in_words(encoding: str):
    with pytest.raises(ReportUnreadable, match="it is no XML: "):
        read_report(f"<?xml version='1.0' encoding='{encoding}'?><testsuite/>".encode())


@pytest.fixture
def confinement() -> Iterator[Confinement]:
    made = Confinement()
    yield made
    made.close()


def test_a_large_report_is_read_in_another_process(
    confinement: Confinement, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    file, one = tmp_path / "report.xml", b'<testcase name="a" time="2"><failure>why</failure></testcase>'
    file.write_bytes(b"<testsuite>%s</testsuite>" % (one * 5000))
    whole = read_report(file.read_bytes())
    monkeypatch.setattr("actors.test_reports.junit.read_report", None)  # of this process
    assert read_confined(confinement, "acme", file) == whole
    file.write_bytes(b"<html>%s" % (b" " * 2**18))
    with pytest.raises(NotReport, match="its first element is neither"):
        read_confined(confinement, "acme", file)


def test_a_report_that_takes_much_memory_is_unreadable(
    confinement: Confinement, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr("actors.test_reports.junit._BOUNDS", Bounds(cpu_seconds=10, memory_bytes=8 << 20, seconds=60))
    (tmp_path / "report.xml").write_bytes(b"<testsuite %s/>" % b" ".join(b'a%d="1"' % each for each in range(2**18)))
    with pytest.raises(ReportUnreadable, match="memory"):
        read_confined(confinement, "acme", tmp_path / "report.xml")


def test_every_test_is_counted_and_failures_are_kept_first():
    passed = b"<testcase/>" * 25_000
    failed = b"<testcase><failure/></testcase>" * 2_000
    report = read_report(b"<testsuite>%s%s</testsuite>" % (passed, failed))
    assert report.counts == {CaseOutcome.PASSED: 25_000, CaseOutcome.FAILED: 2_000}
    assert [case.outcome for case in report.cases].count(CaseOutcome.FAILED) == 1_000
    assert len(report.cases) == 21_000
