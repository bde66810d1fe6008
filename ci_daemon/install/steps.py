"""The steps of an installation, each a check and the action that satisfies it."""

from __future__ import annotations

import shutil
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

from ci_daemon.install import account, needs, release, state, switching

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from ci_daemon.install.host import Host
    from ci_daemon.install.release import Release

__all__ = ["Done", "Step", "carry_out", "outlook", "steps"]


@dataclass(frozen=True, slots=True)
class Step:
    """A condition of the host: ``lacking`` says what to do, None if it is met; ``make`` does that.

    Both may raise InstallError. After an interruption an installation starts again with the first step.
    """

    name: str
    lacking: Callable[[], str | None]
    make: Callable[[], None]


@dataclass(frozen=True, slots=True)
class Done:
    """The result of a step: ``did`` says what was done, None if nothing was needed."""

    name: str
    did: str | None


def steps(host: Host, wanted: Release) -> list[Step]:
    """Return the steps, in order, after which the service runs as a release.

    Until the step ``service`` the service that is there runs on.
    """
    before = release.current(host)
    return [
        Step("user", partial(account.lacking, host), partial(account.make, host)),
        Step("configuration", partial(state.configuration_lacking, host), partial(state.make_configuration, host)),
        Step("state", partial(state.directory_lacking, host), partial(state.make_directory, host, wanted)),
        Step("host", partial(needs.lacking, host, wanted), partial(needs.make, host, wanted)),
        Step("image", partial(needs.image_lacking, host, wanted), partial(needs.make_image, host, wanted)),
        Step("service", partial(switching.lacking, host, wanted), partial(switching.to, host, wanted)),
        Step("command", partial(_command_lacking, host), partial(_link_command, host)),
        Step("old releases", partial(_old, host, wanted, before), partial(_remove_old, host, wanted, before)),
    ]


def carry_out(planned: Sequence[Step]) -> Iterator[Done]:
    """Carry out the steps that are needed, and yield each result."""
    for step in planned:
        lack = step.lacking()
        if lack is not None:
            step.make()
        yield Done(step.name, lack)


def outlook(host: Host, origin: str) -> list[str]:
    """Return what an installation would do, as far as that is known before its release is made.

    Changes nothing.
    """
    now = release.current(host)
    if now is None:
        found = [account.lacking(host), state.configuration_lacking(host), state.directory_lacking(host)]
        last = ["install what the host lacks", "build the default image, from which VMs start", "start the service"]
        return [f"make a release of {origin}", *filter(None, found), *last]
    first = f"make a release of {origin} and, if it differs from {now}, keep the database, stop that and start this"
    return [first, *(lack for step in steps(host, now) if (lack := step.lacking()) is not None)]


def _command_lacking(host: Host) -> str | None:
    there = host.command.is_symlink() and host.command.readlink() == host.opt / "current/bin/ci-daemon"
    return None if there else f"let {host.command} be the command of the current release"


def _link_command(host: Host) -> None:
    host.command.parent.mkdir(parents=True, exist_ok=True)
    host.command.unlink(missing_ok=True)
    host.command.symlink_to(host.opt / "current/bin/ci-daemon")


def _kept(host: Host, wanted: Release, before: Release | None) -> list[Release]:
    """Return the wanted release and the one to roll back to."""
    earlier = release.other(host) if before in {None, wanted} else before
    return [each for each in (wanted, earlier) if each is not None]


def _old(host: Host, wanted: Release, before: Release | None) -> str | None:
    old = release.beside(host, _kept(host, wanted, before))
    return f"remove {', '.join(each.name for each in old)}" if old else None


def _remove_old(host: Host, wanted: Release, before: Release | None) -> None:
    for each in release.beside(host, _kept(host, wanted, before)):
        shutil.rmtree(each)
