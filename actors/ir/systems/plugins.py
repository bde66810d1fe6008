"""Settings of plugins of Woodpecker and Drone as the variables that these get. Pure."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import TYPE_CHECKING

from actors.ir.systems.omissions import LeftOut, only

if TYPE_CHECKING:
    from actors.ir.systems.located import Located
    from actors.ir.systems.substitution import Substitution

_NAME = re.compile(r"[A-Z_][A-Z0-9_]*", re.ASCII)


def plugin_settings(settings: Located, key: str, texts: Substitution) -> tuple[dict[str, str], dict[str, str]]:
    """Return the variables, and the names of secrets by variables. Raises LeftOut and Unsayable.

    As Woodpecker documents it: a setting is in upper case behind ``PLUGIN_``; a list of plain values is joined by
    commas, and what has mappings or lists in it is JSON.
    """
    env: dict[str, str] = {}
    secrets: dict[str, str] = {}
    for name, value in settings.mapping().items():
        variable = f"PLUGIN_{name.upper().replace('.', '_').replace('-', '_')}"
        place = f"{key}.{name}"
        if not _NAME.fullmatch(variable) or variable in {*env, *secrets}:
            raise LeftOut(value, place, "this is no name that a variable may have, or two settings have one")
        if "from_secret" in value.mapping():
            only(value, frozenset({"from_secret"}), place)
            secrets[variable] = value.get("from_secret").text or ""
        else:
            env[variable] = _text(value, place, texts)
    return env, secrets


def _text(value: Located, key: str, texts: Substitution) -> str:
    is_list = isinstance(value.value, tuple)
    if is_list and not any(isinstance(each.value, tuple | Mapping) for each in value.items()):
        return ",".join(_scalar(each, key, texts) for each in value.items())
    if is_list or isinstance(value.value, Mapping):
        return json.dumps(_plain(value, key, texts), sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    return _scalar(value, key, texts)


def _scalar(value: Located, key: str, texts: Substitution) -> str:
    text = "" if value.value is None else value.scalar
    if text is None or isinstance(value.value, float):
        raise LeftOut(value, key, "systems read this number differently: write it in quotes")
    return texts.plain(text)


def _plain(value: Located, key: str, texts: Substitution) -> object:
    """Return a value as JSON has it."""
    if isinstance(value.value, tuple):
        return [_plain(each, key, texts) for each in value.items()]
    if isinstance(value.value, Mapping):
        if "from_secret" in value.value:
            raise LeftOut(value, key, "no secret is put into a mapping or list here: give it a setting of its own")
        return {name: _plain(each, f"{key}.{name}", texts) for name, each in value.value.items()}
    if isinstance(value.value, bool | int) or value.value is None:
        return value.value
    return _scalar(value, key, texts)
