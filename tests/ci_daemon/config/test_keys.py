from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import fields
from pathlib import Path
from typing import get_args, get_origin

import pytest

from ci_daemon.config import Config, ConfigError, load
from ci_daemon.config.keys import Key, sections
from storage.settings import UNBOUNDED

KEYS = {f"{section.name}.{key.name}": key for section in sections() for key in section.keys}
NUMBERS = {name: key for name, key in KEYS.items() if key.type in {int, float} or key.type == Mapping[str, int]}


def test_every_section_is_declared_in_a_settings_module():
    assert {type(getattr(Config(), each.name)).__module__.rpartition(".")[2] for each in fields(Config)} == {"settings"}


def test_every_key_has_one_sentence_of_description():
    wrong = [
        name for name, key in KEYS.items() if not key.description[:1].isupper() or not key.description.endswith(".")
    ]
    wrong += [name for name, key in KEYS.items() if ". " in key.description]
    assert not wrong


def test_every_number_has_a_range_that_holds_its_default():
    assert len(NUMBERS) > 50
    assert not [name for name, key in NUMBERS.items() if key.range == UNBOUNDED]
    assert not [
        name for name, key in NUMBERS.items() if isinstance(key.default, int | float) and key.default not in key.range
    ]


def test_every_key_without_a_default_has_an_example():
    assert not [name for name, key in KEYS.items() if key.example is None]


def outside(key: Key) -> Iterator[float]:
    """Yield the numbers next to the range of a key, outside it."""
    step = 1 if key.type is int or get_origin(key.type) is Mapping else 0.001
    bounds = key.range
    yield from (bound - step for bound in (bounds.at_least,) if bound is not None)
    yield from (bound + step for bound in (bounds.at_most,) if bound is not None)
    yield from (bound for bound in (bounds.above, bounds.below) if bound is not None)
    if float in {key.type, *get_args(key.type)}:
        yield math.nan


@pytest.mark.parametrize("name", NUMBERS)
def test_a_number_outside_its_range_is_refused_by_name(tmp_path: Path, name: str):
    variable = f"CI_DAEMON_{name.replace('.', '_').upper()}"
    for number in outside(NUMBERS[name]):
        value = f"{{x = {number}}}" if get_origin(NUMBERS[name].type) is Mapping else str(number)
        with pytest.raises(ConfigError, match=rf"^{variable}: {name}.*: expected a .*number .*, got {number}$"):
            load(tmp_path, {variable: value}, tmp_path / "none")
