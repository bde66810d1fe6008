"""The lines of mistakes as people see them."""

from __future__ import annotations

from actors.render.mistakes import FileMistake, in_words, with_sources


def mistake(column: int, source: str, line: int = 7) -> FileMistake:
    return FileMistake(".hm/ci.yml", line, column, "invalid_ir", "oops", source)


def test_the_caret_is_below_the_column():
    assert mistake(5, "    run: make").excerpt.splitlines() == ["  7 |     run: make", "    |     ^"]
    assert mistake(2, "\tx", line=120).excerpt.splitlines() == ["  120 |  x", "      |  ^"]


def test_of_a_long_line_the_place_is_shown():
    shown, caret = mistake(5_000, f"{'a' * 4_999}b{'a' * 4_999}").excerpt.splitlines()
    assert len(shown) <= 130
    assert shown[caret.index("^")] == "b"


def test_controls_of_a_stranger_are_blanks():
    assert "\x1b" not in mistake(3, "a\x1b[2Jb\x07").excerpt


def test_only_the_first_mistakes_have_their_lines():
    told = in_words([mistake(1, f"line {number}", number) for number in range(1, 21)])
    assert told.count("oops") == 20
    assert told.count("^") == 10


def test_lines_are_those_of_texts_that_are_known():
    found = with_sources(
        [("b", 2, 1, "c", "m"), ("a", 1, 1, "c", "m"), ("a", 1, 1, "c", "m"), ("a", 9, 1, "c", "m")], {"a": "one\r\n"}
    )
    assert found == [("a", 1, 1, "c", "m", "one"), ("a", 9, 1, "c", "m", ""), ("b", 2, 1, "c", "m", "")]
    assert FileMistake(*found[1]).excerpt == ""
