"""Options of commands that change settings of organizations and pipelines."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from storage import CancelSuperseded

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

DEFAULT = "default"
"""The value of a setting that is left to the next larger unit."""

superseded_option = click.option(
    "--cancel-superseded",
    type=click.Choice([*(each.value for each in CancelSuperseded), DEFAULT]),
    help="The builds that a newer push cancels: waiting ones, running ones of all branches but the default, or all.",
)

strict_shell_option = click.option(
    "--strict-shell",
    type=click.Choice(["yes", "no", DEFAULT]),
    help="Whether each line of a command that fails fails its step, in builds from now on.",
)


def strict_shell_of(given: str) -> bool | None:
    """Return the choice that the option gives, None for the default."""
    return None if given == DEFAULT else given == "yes"


def settings_in_words(document: Mapping[str, object], names: Iterable[str]) -> str:
    """Return the settings of a document for people, as in "weight 2, fail fast on"."""
    return ", ".join(f"{name.replace('_', ' ')} {_in_words(document[name])}" for name in names)


def _in_words(value: object) -> str:
    if value is None:
        return DEFAULT
    return ("on" if value else "off") if isinstance(value, bool) else str(value)
