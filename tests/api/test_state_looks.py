from __future__ import annotations

import re
from pathlib import Path

from api.state_looks import LOOKS, worst
from storage import BuildState, JobState, LeaseState

STYLES = (Path(__file__).parents[2] / "api/console/static/tokens.css").read_text()


def test_every_state_has_a_look():
    assert set(LOOKS) == {*BuildState, *JobState, *LeaseState, "rendering", "held", "soft_failed"}


def test_every_tone_has_a_colour():
    tones = set(re.findall(r"--(\w+): light-dark", STYLES))
    assert {look.tone for look in LOOKS.values()} <= tones


def test_what_needs_a_look_first_is_the_worst():
    assert worst({"passed", "running", "failed"}) == "failed"
    assert worst({"soft_failed", "passed"}) == "soft_failed"
    assert worst({"skipped", "passed"}) == "passed"
