"""Reports of coverage in their formats."""

from __future__ import annotations

import pytest

from actors.coverage.formats import (
    CoverageUnreadable,
    FileCoverage,
    NotCoverage,
    lines_of,
    mask_of,
    may_be_coverage,
    read_coverage,
)

COBERTURA = b"""<?xml version="1.0" ?>
<!DOCTYPE coverage SYSTEM 'http://cobertura.sourceforge.net/xml/coverage-04.dtd'>
<coverage line-rate="0.5"><sources><source>/workspace</source></sources><packages><package name="."><classes>
<class name="a.py" filename="src/a.py"><methods><method name="f">
<lines><line number="9" hits="1"/></lines></method></methods>
<lines><line number="1" hits="3"/><line number="2" hits="0"/><line number="4" hits="1"/></lines></class>
</classes></package></packages></coverage>"""
JACOCO = b"""<?xml version="1.0" encoding="UTF-8" standalone="yes"?>
<!DOCTYPE report PUBLIC "-//JACOCO//DTD Report 1.1//EN" "report.dtd">
<report name="demo"><package name="com/acme"><class name="com/acme/A"><method name="f"/></class>
<sourcefile name="A.java">
<line nr="3" mi="0" ci="2" mb="0" cb="0"/><line nr="4" mi="1" ci="0" mb="0" cb="0"/></sourcefile>
</package></report>"""
LCOV = (
    b"TN:\nSF:/workspace/src/a.js\nFN:1,f\nDA:1,5\nDA:2,0\nend_of_record\nSF:src/b.js\nDA:7,1,checksum\nend_of_record\n"
)
GO = b"mode: set\nexample.org/acme/web/a.go:3.10,5.2 2 1\nexample.org/acme/web/a.go:5.2,6.3 1 0\n"


def shown(content: bytes) -> dict[str, tuple[list[tuple[int, int]], list[tuple[int, int]]]]:
    return {
        path: (list(lines_of(each.lines)), list(lines_of(each.covered)))
        for path, each in read_coverage(content).items()
    }


def test_each_format_has_its_lines():
    assert shown(COBERTURA) == {"src/a.py": ([(1, 2), (4, 4)], [(1, 1), (4, 4)])}
    assert shown(JACOCO) == {"com/acme/A.java": ([(3, 4)], [(3, 3)])}
    assert shown(LCOV) == {
        "/workspace/src/a.js": ([(1, 2)], [(1, 1)]),
        "src/b.js": ([(7, 7)], [(7, 7)]),
    }
    assert shown(GO) == {"example.org/acme/web/a.go": ([(3, 6)], [(3, 5)])}
    assert all(map(may_be_coverage, (COBERTURA, JACOCO, LCOV, GO)))


@pytest.mark.parametrize("content", [b"", b"text", b"<testsuite/>", b"<testsuite", b"\xff\xfe<", b"<a/>"])
def test_another_file_is_no_report(content: bytes):
    with pytest.raises(NotCoverage) as raised:
        read_coverage(content)
    assert not isinstance(raised.value, CoverageUnreadable)
    assert not may_be_coverage(content)


BOMB = b'<!DOCTYPE coverage [<!ENTITY a "aaaa"><!ENTITY b "&a;&a;">]><coverage>&b;</coverage>'
FILE = b'<!DOCTYPE report [<!ENTITY a SYSTEM "file:///etc/passwd">]><report>&a;</report>'


@pytest.mark.parametrize("content", [BOMB, FILE, b"<coverage>", b"<report><a></report>"])
def test_a_hostile_document_is_refused(content: bytes):
    with pytest.raises(CoverageUnreadable):
        read_coverage(content)


def test_lines_and_files_have_bounds():
    many = b"mode: set\n" + b"a.go:1.1,199999.1 1 1\n" * 11
    with pytest.raises(CoverageUnreadable, match="2,000,000 lines"):
        read_coverage(many)
    with pytest.raises(CoverageUnreadable, match="20,000 files"):
        read_coverage(b"TN:\n" + b"".join(b"SF:%d\nDA:1,1\n" % number for number in range(20_001)))
    far = b"TN:\nSF:a\nDA:%d,1\nDA:0,1\nDA:-1,1\nDA:x,1\nDA:2,%s\n" % (10**12, b"9" * 30)
    assert shown(far) == {"a": ([(2, 2)], [])}
    assert read_coverage(b"TN:\nSF:" + b"a" * 401 + b"\nDA:1,1\n") == {}


def test_masks_say_lines_together():
    mask = mask_of({1, 2, 3, 8, 64, 65})
    assert list(lines_of(mask)) == [(1, 3), (8, 8), (64, 65)]
    assert mask_of(set()) == 0
    one, two = FileCoverage(0b1110, 0b0010), FileCoverage(0b10110, 0b10100)
    assert one | two == FileCoverage(0b11110, 0b10110)
    assert (one | two) & 0b1100 == FileCoverage(0b1100, 0b0100)
    assert ((one | two).count, (one | two).hits) == (4, 3)
