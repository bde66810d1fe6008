from __future__ import annotations

import base64
import json
import re
from collections.abc import Sequence
from pathlib import Path
from tempfile import mkdtemp
from urllib.parse import quote, quote_plus

import pytest
from hypothesis import given
from hypothesis import strategies as st

from storage import LogFiles
from storage.files.log_index import LogKind
from storage.files.masking import Masker
from tests.clock import ManualClock

PLAIN = "s3cr3t-Tok/en+1"
PHRASE = "pass wörd & <more>~! 🔑"
KEY = "-----BEGIN KEY-----\nMIIEvgIBADANBgkqh\nkiG9w0BAQEFAASC\nshort\n-----END KEY-----\n"
SECRETS = {"plain": PLAIN, "phrase": PHRASE, "key": KEY, "long": "0123456789abcdef" * 40}
BEFORE, AFTER = b"\xff\x00\xe2\x82", b"\x82\xac\x80\xfe\n"


def _logs(directory: Path, limit: int = 10**9) -> LogFiles:
    return LogFiles(directory, limit, ManualClock())


def _read(logs: LogFiles, job: str = "job") -> bytes:
    log = logs.reader("build", job)
    whole = log.read(0, log.size())
    assert b"".join(chunk.content for chunk in log.chunks()) == whole
    return whole


def _shown(secret: str) -> dict[str, bytes]:
    """Return the forms in which programs print a secret, by name."""
    raw = secret.encode()
    ended = base64.b64encode(raw + b"\n")
    within = (base64.b64encode(b"-" * before + raw + b"." * 8) for before in (3, 4, 5))
    return {
        "raw": raw,
        "base64": base64.b64encode(raw),
        "base64 without padding": base64.b64encode(raw).rstrip(b"="),
        "base64 of a line": ended,
        "base64 for URLs": base64.urlsafe_b64encode(raw),
        "base64 for URLs without padding": base64.urlsafe_b64encode(raw).rstrip(b"="),
        "wrapped base64": base64.encodebytes(raw).removesuffix(b"\n"),
        "wrapped base64 of a line": base64.encodebytes(raw + b"\n").removesuffix(b"\n"),
        "PEM": b"\n".join(ended[start : start + 64] for start in range(0, len(ended), 64)),
        "URL": quote(secret, safe="").encode(),
        "path": quote(secret).encode(),
        "form": quote_plus(secret).encode(),
        "URI component": quote(secret, safe="!'()*").encode(),
        "every byte": "".join(f"%{byte:02X}" for byte in raw).encode(),
        "every byte in lower case": "".join(f"%{byte:02x}" for byte in raw).encode(),
        "JSON": json.dumps(secret)[1:-1].encode(),
        "JSON in UTF-8": json.dumps(secret, ensure_ascii=False)[1:-1].encode(),
        **{f"base64 at {place}": text for place, text in enumerate(within)},
    }


@pytest.mark.parametrize("name", ["plain", "phrase", "key"])
@pytest.mark.parametrize("form", _shown(PLAIN))
def test_a_secret_is_masked_wherever_it_is_split(tmp_path: Path, name: str, form: str):
    """The next part may come from another writer."""
    secret = SECRETS[name]
    masker, shown = Masker.hiding([secret]), _shown(secret)[form]
    output = BEFORE + shown + AFTER
    expected, _ = masker.mask(output, more=False)
    logs = _logs(tmp_path)
    for cut in range(len(output) + 1):
        with logs.writer("build", f"cut-{cut}", 1, masker) as writer:
            writer.output(output[:cut])
            writer.output(output[cut:])
        with logs.writer("build", f"at-once-{cut}", 1, masker) as writer:
            writer.output(memoryview(output)[:cut], memoryview(output)[cut:])
        first = logs.writer("build", f"gone-on-{cut}", 1, masker)
        first.output(output[:cut])
        first.close()
        with logs.writer("build", f"gone-on-{cut}", 1, masker) as second:
            second.output(output[second.output_offset :])
        assert {_read(logs, f"{way}-{cut}") for way in ("cut", "at-once", "gone-on")} == {expected}


@pytest.mark.parametrize("name", ["plain", "phrase", "key", "long"])
def test_no_form_of_a_secret_is_left_to_read(name: str):
    secret = SECRETS[name]
    masker = Masker.hiding([secret])
    for form, shown in _shown(secret).items():
        masked, _ = masker.mask(b"<" + shown + b">", more=False)
        if form.startswith("base64 at"):
            left = masked.replace(b"***", b"").strip(b"<>")
            assert len(left) < 24, (form, masked)
            assert base64.b64encode(secret.encode())[8:16] not in left
        else:
            assert masked == b"<***>", form


def test_each_line_of_a_secret_is_one_where_it_is_long_enough():
    masked = Masker.hiding([KEY]).masked("kiG9w0BAQEFAASC and short\r\n  MIIEvgIBADANBgkqh\r\n")
    assert masked == "*** and short\r\n  ***\r\n"


def test_short_secrets_are_not_looked_for_within_base64():
    within = base64.b64encode(b"hello, ABCD hello").decode()
    assert Masker.hiding(["ABCD"]).masked(f"QUJDRA== and ABCD, {within}") == f"*** and ***, {within}"


def test_an_empty_secret_masks_nothing():
    assert Masker.hiding([""]).masked("as it is") == "as it is"


ALPHABET = st.sampled_from(["a", "b", "ab", "é", "\n", "%"])
VALUES = st.lists(st.lists(ALPHABET, min_size=1, max_size=6).map("".join), min_size=1, max_size=3)
PIECES = st.lists(st.one_of(ALPHABET.map(str.encode), st.binary(max_size=3)), max_size=30)


@given(VALUES, PIECES, st.sets(st.integers(0, 30)))
def test_a_log_equals_the_masked_whole_output(
    memory_disk: Path, values: Sequence[str], pieces: Sequence[bytes], reopen_at: set[int]
):
    logs, masker = _logs(Path(mkdtemp(dir=memory_disk))), Masker.hiding(values)
    output = b"".join(pieces)
    writer = logs.writer("build", "job", 1, masker)
    begun = 0
    for position, piece in enumerate(pieces):
        begun += len(piece)
        writer.output(output[writer.output_offset : begun])
        if position in reopen_at:
            writer.close()
            writer = logs.writer("build", "job", 1, masker)
    writer.output(output[writer.output_offset :])
    writer.end()
    assert _read(logs) == masker.mask(output, more=False)[0]
    assert writer.output_offset == len(output)


def test_a_secret_longer_than_a_record_is_masked(tmp_path: Path):
    secret = "".join(f"{number:x}." for number in range(15_000))
    logs, masker = _logs(tmp_path), Masker.hiding([secret])
    output = b"<" + secret.encode() + b">" + b"x" * 300_000 + "".join(f"%{ord(c):02x}" for c in secret).encode() + b"!"
    with logs.writer("build", "job", 1, masker) as writer:
        for start in range(0, len(output), 50_000):
            writer.output(output[start : start + 50_000])
    assert re.sub(rb"(\*\*\*)+", b"***", _read(logs)) == b"<***>" + b"x" * 300_000 + b"***!"


def test_notices_are_masked_and_precede_pending_output(tmp_path: Path):
    logs = _logs(tmp_path)
    with logs.writer("build", "job", 1, Masker.hiding(["hunter2"])) as writer:
        writer.output(b"was hunt")
        writer.notice("it was hunter2")
        writer.output(b"er2, he said")
    assert [(chunk.kind, chunk.content) for chunk in logs.reader("build", "job").chunks()] == [
        (LogKind.OUTPUT, b"was "),
        (LogKind.NOTICE, b"\nit was ***\n"),
        (LogKind.OUTPUT, b"***, he said"),
    ]


def test_half_a_secret_waits_for_more_output(tmp_path: Path):
    """At the end of the output it is no secret."""
    logs, masker = _logs(tmp_path), Masker.hiding(["hunter2"])
    writer = logs.writer("build", "job", 1, masker)
    writer.output(b"was hunter")
    writer.close()
    assert _read(logs) == b"was "
    with logs.writer("build", "job", 1, masker) as again:
        assert again.output_offset == 4
        again.output(b"hunter")
    assert _read(logs) == b"was hunter"


def test_the_limit_counts_stored_bytes(tmp_path: Path):
    masker = Masker([b"x"])
    logs = _logs(tmp_path, limit=8)
    with logs.writer("build", "job", 1, masker) as writer:
        writer.output(b"1 xx")
    assert _read(logs) == b"1 ******"


def test_output_that_grows_by_masking_keeps_its_end(tmp_path: Path):
    logs = _logs(tmp_path, limit=40)
    with logs.writer("build", "job", 1, Masker([b"x"])) as writer:
        writer.output(b"1 " + b"x" * 20 + b"\nLAST")
    assert _read(logs) == b"23 bytes of output are left out here: the log keeps 40.\nLAST"


@pytest.mark.parametrize("first", range(30))
def test_no_part_of_a_secret_shows_where_the_middle_is_left_out(tmp_path: Path, first: int):
    logs, masker = _logs(tmp_path, limit=60), Masker.hiding(["hunter2hunter2"])
    secret = b"hunter2hunter2"
    output = b"." * first + secret * 30
    with logs.writer("build", "job", 1, masker) as writer:
        writer.output(output)
    assert set(_read(logs)[first:].split(b"left out")[0].split(b"\n")[0]) <= set(b"*.")
    assert set(_read(logs).split(b"keeps 60.\n")[1]) <= set(b"*.")
    share = logs.share_of_output(masker)
    with logs.writer("build", "again", 1, masker) as writer:
        writer.output(output[: share.head])
        writer.leave_out(len(output) - share.head - share.tail - share.margin)
        writer.output(output[len(output) - share.tail - share.margin :])
    assert logs.reader("build", "again").read(0, 1000) == _read(logs)
