"""Declarations of settings, and the section about builds that have not ended.

A declaration has the default, range and description of a key, and says whether a reload applies it.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import field
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, TypeVar, cast

from storage.data_classes import immutable
from storage.database.clock import SECOND
from storage.patterns import pattern
from storage.records.builds import Priority

if TYPE_CHECKING:
    from collections.abc import Iterable
    from dataclasses import Field
    from ipaddress import IPv4Network, IPv6Network


T = TypeVar("T")

_SECURE = pattern(
    r"https://[^\s?#@]+|http://(?:localhost|127\.\d+\.\d+\.\d+|\[::1\])(?::\d+)?(?:/[^\s?#@]*)?", re.ASCII
)

_METADATA = "setting"

_MAX_BUILDS = 100_000
_MAX_YIELD = 30 * 86_400
_YIELDS = {
    Priority.PULL_REQUEST: 600,
    Priority.DEFAULT_BRANCH: 600,
    Priority.BRANCH: 600,
    Priority.SCHEDULE: 21_600,
    Priority.CULPRIT: 21_600,
}
_MAX_GB = 1_000_000


@immutable
class Range:
    """The numbers that a key accepts; a bound of None is no bound. NaN is within no bound."""

    at_least: float | None = None
    above: float | None = None
    at_most: float | None = None
    below: float | None = None

    def __contains__(self, value: float) -> bool:
        """Tell whether the value is within every bound."""
        return (
            (self.at_least is None or value >= self.at_least)
            and (self.above is None or value > self.above)
            and (self.at_most is None or value <= self.at_most)
            and (self.below is None or value < self.below)
        )

    def __str__(self) -> str:
        """Return words that follow a noun: "from 1 to 64", "of at least 0", "above 0 and at most 9"."""
        if self.at_least is not None and self.at_most is not None:
            return f"from {self.at_least} to {self.at_most}"
        bounds = {"of at least": self.at_least, "above": self.above, "at most": self.at_most, "below": self.below}
        return " and ".join(f"{words} {bound}" for words, bound in bounds.items() if bound is not None)


UNBOUNDED = Range()


@immutable
class SettingDeclaration:
    """The description of a key or section in one sentence, the range of its numbers, and an example.

    A key without a default has an example, because TOML has no null. A ``live`` key is applied by a reload; another
    needs a restart. ``replaces`` are keys of earlier releases, with their section if that was another.
    """

    description: str = ""
    range: Range = UNBOUNDED
    example: str | None = None
    live: bool = False
    replaces: tuple[str, ...] = ()


def setting(
    default: T,
    description: str,
    *,
    at_least: float | None = None,
    above: float | None = None,
    at_most: float | None = None,
    below: float | None = None,
    example: str | None = None,
    secret: bool = False,
    live: bool = False,
    replaces: tuple[str, ...] = (),
) -> T:
    """Declare a field of a settings class, which is a key or a section of the configuration.

    Args:
        default: the value of a key that is not set.
        description: one sentence; names of keys and values are in backticks.
        at_least: the lowest number accepted; of a table of numbers, the lowest of each.
        above: the numbers accepted are higher.
        at_most: the highest number accepted.
        below: the numbers accepted are lower.
        example: a value to show, for a key without a default.
        secret: the value is not printed.
        live: a reload applies the key: it is read anew at each use.
        replaces: keys of earlier releases, in whose place this key came: of the same section, or ``section.key``.

    Returns:
        The field, typed as its value because that is what an instance holds.
    """
    declared = SettingDeclaration(description, Range(at_least, above, at_most, below), example, live, replaces)
    metadata = {_METADATA: declared}
    if isinstance(default, Mapping):
        frozen = MappingProxyType(dict(default))
        return cast("T", field(default_factory=lambda: frozen, repr=not secret, metadata=metadata))
    return field(default=default, repr=not secret, metadata=metadata)


def required_setting(description: str, *, example: str, secret: bool = False) -> Any:  # noqa: ANN401 - of the annotated type
    """Declare a field of a settings class that has no default: a key that its section must have.

    Args:
        description: one sentence; names of keys and values are in backticks.
        example: a value to show.
        secret: the value is not printed.
    """
    return field(repr=not secret, metadata={_METADATA: SettingDeclaration(description, example=example)})


def networks_of(written: Iterable[str]) -> tuple[IPv4Network | IPv6Network, ...]:
    """Return the networks that the key ``networks`` of a section names. Raises ValueError."""
    from ipaddress import ip_network  # noqa: PLC0415 - most commands read no section that has the key

    try:
        return tuple(map(ip_network, written))
    except ValueError as error:
        raise ValueError(f'networks must be networks such as "10.1.0.0/16": {error}') from None


def setting_declaration(declared: Field[Any]) -> SettingDeclaration:
    """Return the declaration of a field; an empty one if it was not made by `setting`."""
    return cast("SettingDeclaration", declared.metadata.get(_METADATA, SettingDeclaration()))


def is_secure_address(url: str) -> bool:
    """Tell whether a URL is https, or leads to this host: nobody else reads what is sent there."""
    return _SECURE.fullmatch(url) is not None


@immutable
class BuildSettings:
    """Section ``[builds]``: the builds that one organization may have that run or wait, and their order.

    With more, requests are refused (429 `too_many_builds`), schedules skip a time, and pushes and pull requests wait
    until builds have ended. Those of pull requests from forks may be half of them.
    """

    max_unfinished: int = setting(
        1000, "The most builds of an organization that have not ended.", at_least=1, at_most=_MAX_BUILDS
    )
    max_source_gb: float = setting(
        20.0, "The most GB of the source archives of these builds.", above=0, at_most=_MAX_GB
    )
    yield_seconds: Mapping[Priority, int] = setting(
        _YIELDS,
        "Seconds for which jobs let others of their organization go first, by the priority of their build; 0 for one"
        " that is not named.",
        at_least=0,
        at_most=_MAX_YIELD,
    )

    def yields(self, priority: Priority) -> int:
        """Return the microseconds for which jobs of a build let others go first."""
        return self.yield_seconds.get(priority, 0) * SECOND
