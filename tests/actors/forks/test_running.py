from __future__ import annotations

from actors.forks.running import shown_output
from storage import Masker

SECRET = "hunter2-and-more"
HIDING = Masker.hiding([SECRET])


def test_output_is_shown_without_secrets():
    assert shown_output(f"a {SECRET}\n".encode(), b"b\xff\n", 0, HIDING) == "a ***\nb\ufffd\n"


def test_a_secret_is_hidden_where_output_is_left_out():
    half = len(SECRET) // 2
    shown = shown_output(f"begin {SECRET[:half]}".encode(), f"{SECRET[half:]} end, as it is\n".encode(), 7, HIDING)
    assert shown.startswith("begin ")
    assert "[7 bytes of output are left out]" in shown
    assert SECRET[:half] not in shown
    assert SECRET[half:] not in shown
