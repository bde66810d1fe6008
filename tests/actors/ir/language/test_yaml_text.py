"""YAML as people see it: spellings, keys, anchors, and its bounds."""

from __future__ import annotations

import pytest

from actors.ir.language.yaml_text import MAX_BYTES, Mark, NotYaml, read_yaml


def refused(text: str) -> tuple[str, Mark | None]:
    with pytest.raises(NotYaml) as caught:
        read_yaml(text)
    return caught.value.message, caught.value.mark


@pytest.mark.parametrize(
    "spelling", ["3.10", "0644", "1e3", "no", "on", "y", "0x1F", "12:30:45", "2026-01-01", "1_000"]
)
def test_a_scalar_is_its_spelling(spelling: str):
    assert read_yaml(f"a: {spelling}").value == {"a": spelling}
    assert read_yaml(f"{spelling}: a").value == {spelling: "a"}


def test_every_key_and_item_has_a_line_and_column():
    document = read_yaml("a:\n  b: [x, {c: y}]\n")
    assert document.mark(("a",)) == Mark(1, 1)
    assert document.mark(("a", "b", 1, "c")) == Mark(2, 11)
    assert document.mark(("a", "b", 1, "gone")) == Mark(2, 10)


def test_own_keys_win_over_merged_ones():
    text = "x: &x {k: 1, l: 1}\ny: &y {k: 2, m: 2}\na: {k: 3, <<: [*x, *y]}\n"
    assert read_yaml(text).value["a"] == {"k": "3", "l": "1", "m": "2"}  # type: ignore[call-overload,index] # a mapping


def test_a_key_that_stands_twice_is_noted():
    document = read_yaml("a: 1\nb: {c: 2, c: 3}\na: [4]\n")
    assert document.value == {"a": "1", "b": {"c": "2"}}
    assert document.repeated == (("c", Mark(2, 11)), ("a", Mark(3, 1)))


def test_an_alias_is_what_its_anchor_is():
    assert read_yaml("a: &a [1]\nb: *a\n").value == {"a": ["1"], "b": ["1"]}


@pytest.mark.parametrize(
    ("text", "message", "mark"),
    [
        ("", "the file is empty", None),
        ("a: [1", "did not find expected ',' or ']'", Mark(2, 1)),
        ("a: *b", "found undefined alias", Mark(1, 4)),
        (
            "run: echo 'error: boom'; false",
            'a ": " begins a mapping, which cannot be here: quote the text, or put it behind `|` on lines of its own',
            Mark(1, 17),
        ),
        (
            "a:\n\tb: 1",
            "no value begins with this character: indent by spaces, not tabs, and quote text that begins with it",
            Mark(2, 1),
        ),
        ("a: 1\n---\nb: 2", "another document begins here: a file has one pipeline", Mark(2, 1)),
        (
            "a: !!python/object:os.system {}",
            'the tag "tag:yaml.org,2002:python/object:os.system" means nothing here',
            Mark(1, 4),
        ),
        ("a: !reference [x]", 'the tag "!reference" means nothing here', Mark(1, 4)),
        ("? [a]\n: 1", "expected a key, and there is a list or a mapping", Mark(1, 3)),
        ("a: {<<: 1}", '"<<" merges mappings, and this is none', Mark(1, 9)),
        ('a: "\\ud800"', "found invalid Unicode character escape code", Mark(1, 7)),
    ],
)
def test_what_is_not_yaml_is_refused_with_its_place(text: str, message: str, mark: Mark | None):
    assert refused(text) == (message, mark)


def bomb(levels: int) -> str:
    lines = ["a0: &a0 [1, 1, 1, 1, 1, 1, 1, 1, 1, 1]"]
    lines += [f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 10)}]" for n in range(1, levels)]
    return "\n".join(lines)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (bomb(9), "aliases expand to too much"),
        ("a: &a [*a]", "aliases expand to too much"),
        ("a: &a {b: 1, <<: *a}", "aliases expand to too much"),
        ("[" * 50, "nested more than 40 levels deep"),
        ("{a: " * 30_000, "nested more than 40 levels deep"),
        ("- " * 100_000, "nested more than 40 levels deep"),
        ("x" * (MAX_BYTES + 1), "the file has more than 256 KiB"),
        ("[" + "1," * 110_000 + "]", "aliases expand to too much"),
    ],
    ids=["billion laughs", "recursive", "merges itself", "deep", "deep mapping", "deep list", "long", "many"],
)
def test_a_hostile_file_is_refused_soon(text: str, message: str):
    assert refused(text)[0] == message
