"""Secrets as real programs show them by accident, each of which the masker hides."""

from __future__ import annotations

import html
import json
import subprocess
import sys
from random import Random
from xml.sax import saxutils

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from storage.files.masking import Masker
from storage.files.secret_encodings import LEAST_LENGTH, secret_encodings
from tests.programs import unpacked_libraries, unpacked_program

AWKWARD = "pa$s'w\"o`r\\d&<x>!"
SECRET = st.text(
    st.sampled_from("ab1 '\"$`\\!&<>#~%=;|(){}[]*?^,:/@+-_.\té€\x1b"), min_size=LEAST_LENGTH, max_size=24
).map(str.strip)

BASH = r"""
set -x
: "$SECRET"
export OTHER="$SECRET"
[ "$SECRET" = "" ]
{ set +x; } 2>/dev/null
declare -p SECRET
printf '%q\n' "$SECRET"
echo "${SECRET@Q}"
export -p | grep SECRET
set | grep '^SECRET='
"""
SH = 'set -x; : "$SECRET"; OTHER="$SECRET"; export -p; set'
ZSH = '; set +x; printf "%q\\n" "$SECRET"; print -r -- ${(q)SECRET} ${(qq)SECRET} ${(qqq)SECRET} ${(qqqq)SECRET}'
PYTHON = r"""
import os, json, html, shlex, sys, urllib.parse
value = os.environ["SECRET"]
print(repr(value), ascii(value), [value], repr(value.encode()), os.environ, sep="\n")
utf8 = lambda each: json.dumps(each, ensure_ascii=False)
print(json.dumps({"a": json.dumps({"b": value})}), utf8(utf8(value)))
print(html.escape(value), shlex.quote(value), f"{value!r}", sep="\n")
print(repr("it's " + value), repr('"' + value), repr("\"'" + value))
"""


def output(command: list[str], secret: str) -> str:
    """Return all that a program prints that has a secret in its environment."""
    environ = {"SECRET": secret, "PATH": "/usr/bin:/bin", "LC_ALL": "C.UTF-8", "PYTHONIOENCODING": "utf-8:replace"}
    environ["LD_LIBRARY_PATH"] = unpacked_libraries()
    done = subprocess.run(
        command, env=environ, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False, timeout=60
    )
    return done.stdout.decode(errors="replace")


def shells() -> dict[str, list[str]]:
    return {
        "bash": ["bash", "-c", BASH],
        "dash": ["dash", "-c", SH],
        "busybox": [unpacked_program("busybox"), "sh", "-c", SH],
        "zsh": [unpacked_program("zsh"), "-fc", SH + ZSH],
        "fish": [unpacked_program("fish"), "--no-config", "-c", "set -S SECRET; string escape -- $SECRET; export"],
        "python": [sys.executable, "-c", PYTHON],
    }


@pytest.mark.parametrize("name", shells())
def test_what_a_program_shows_of_a_secret_is_masked(name: str):
    """Of an awkward secret no four characters in a row are left; they would stand there in any quoting."""
    secret = f"K3Y{AWKWARD}v4lue"
    shown = output(shells()[name], secret)
    assert "K3Y" in shown
    hidden = Masker.hiding([secret]).masked(shown)
    assert "K3Y" not in hidden, [line for line in hidden.splitlines() if "K3Y" in line]
    assert "v4lue" not in hidden


@settings(max_examples=25, deadline=None)
@given(SECRET.filter(lambda secret: len(secret) >= LEAST_LENGTH))
@example("''''")
@example('""\'"')
@example("~a b")
@example("#a'b")
def test_no_secret_is_shown_by_a_trace_of_bash(secret: str):
    value = f"K3Y{secret}v4lue"
    assert "K3Y" not in Masker.hiding([value]).masked(output(["bash", "-c", BASH], value))


@given(st.text(min_size=LEAST_LENGTH, max_size=30))
def test_no_secret_is_shown_in_literals_or_markup(secret: str):
    value = f"K3Y{secret}v4lue"
    if not value.isprintable():
        return
    shown = (
        repr(value),
        ascii(value),
        json.dumps(value),
        json.dumps(json.dumps([value])),
        json.dumps(json.dumps([value], ensure_ascii=False)),
        html.escape(value),
        html.escape(value, quote=False),
        saxutils.escape(value),
        saxutils.quoteattr(value),
        saxutils.escape(value).encode("ascii", "xmlcharrefreplace").decode(),
        value.replace("'", "''"),
    )
    masker = Masker.hiding([value])
    for each in shown:
        assert "K3Y" not in masker.masked(each), each


@pytest.mark.parametrize("value", ["", "1", "on", "123", " 12 \n", "\n\n\n\n\n"])
def test_a_value_too_short_to_mask_leaves_output_as_it_is(value: str):
    assert secret_encodings(value) == frozenset()
    assert Masker.hiding([value]).masked("tests: 101 passed 2021 on") == "tests: 101 passed 2021 on"


@pytest.mark.parametrize("length", [8, 100, 8190])
def test_the_forms_of_many_secrets_grow_with_their_size(length: int):
    """Each quotes nearly every character, in lines; the forms are what takes time and memory."""
    random = Random(length)
    line = "".join(random.choices("'\"\\$`é<&/~:", k=length))
    values = ["\n".join(f"{line}{number}{of}" for number in range(64_000 // length)) for of in range(3)]
    assert sum(map(len, secret_encodings(*values))) < 81 * sum(map(len, values))


def test_among_long_secrets_a_short_one_is_hidden_in_every_form():
    key = "\n".join(f"line '{number}' of a key" for number in range(1000))
    masker = Masker.hiding([key, "p'ss \"wörd", key[:-1]])
    assert "wörd" not in masker.masked(html.escape("p'ss \"wörd"))
    assert "of a key" not in masker.masked(json.dumps(key) + key.replace("'", "'\\''"))


def test_a_long_value_is_masked_in_pieces():
    value = "".join(chr(97 + (number * number) % 23) for number in range(10_000))
    masker = Masker.hiding([value])
    assert masker.longest < 5000
    hidden = masker.masked(f"before {value} after")
    assert set(hidden.removeprefix("before ").removesuffix(" after")) == {"*"}
