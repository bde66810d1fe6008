"""The steps of an installation, each a check and the action that satisfies it."""

from __future__ import annotations

import shutil
from functools import partial
from typing import TYPE_CHECKING

from ci_daemon.install import account, links, release, requirements, state, switching
from storage import immutable

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from ci_daemon.install.host import Host
    from ci_daemon.install.release import Release


@immutable
class InstallStep:
    """A condition of the host: ``check`` says what to do, None if it is met; ``apply`` does that.

    Both may raise InstallError. After an interruption an installation starts again with the first step.
    """

    name: str
    check: Callable[[], str | None]
    apply: Callable[[], None]


@immutable
class StepResult:
    """The result of a step: ``action`` says what was done, None if nothing was needed."""

    name: str
    action: str | None

    def __str__(self) -> str:
        return f"ok    {self.name}" if self.action is None else f"done  {self.name}: {self.action}"


def steps(host: Host, wanted: Release) -> list[InstallStep]:
    """Return the steps, in order, after which the service runs as a release.

    Until the step ``service`` an existing service keeps running.
    """
    before = release.current(host)
    return [
        *preparation(host, wanted),
        *requirement_steps(host, wanted),
        InstallStep("service", partial(switching.check, host, wanted), partial(switching.switch, host, wanted)),
        InstallStep("command", partial(links.check, host), partial(links.make, host)),
        InstallStep(
            "old releases",
            partial(_check_old_releases, host, wanted, before),
            partial(_remove_old_releases, host, wanted, before),
        ),
    ]


def preparation(host: Host, wanted: Release) -> list[InstallStep]:
    """Return the steps for what outlives every release: the user, the configuration, the state directory."""
    return [
        InstallStep("user", partial(account.check, host), partial(account.create, host)),
        InstallStep(
            "configuration", partial(state.check_configuration, host), partial(state.create_configuration, host)
        ),
        InstallStep("state", partial(state.check_directory, host), partial(state.create_directory, host, wanted)),
    ]


def requirement_steps(host: Host, wanted: Release) -> list[InstallStep]:
    """Return the steps for what builds need and the service itself does not; they use the network."""
    return [
        InstallStep("host", partial(requirements.check, host, wanted), partial(requirements.install, host, wanted)),
        InstallStep(
            "image", partial(requirements.check_image, host, wanted), partial(requirements.build_image, host, wanted)
        ),
    ]


def run_steps(steps_to_run: Sequence[InstallStep]) -> Iterator[StepResult]:
    """Run the steps that are needed, and yield each result."""
    for step in steps_to_run:
        missing = step.check()
        if missing is not None:
            step.apply()
        yield StepResult(step.name, missing)


def plan(host: Host, origin: str) -> list[str]:
    """Return the steps of an installation, as far as they are known before its release is created.

    Changes nothing.
    """
    now = release.current(host)
    if now is None:
        found = [account.check(host), state.check_configuration(host), state.check_directory(host)]
        last = ["install missing packages", "build the default image, from which VMs start", "start the service"]
        return [f"create a release from {origin}", *filter(None, found), *last]
    first = f"create a release from {origin} and, if it differs from {now}, back up the database and switch to it"
    return [first, *missing_parts(steps(host, now))]


def missing_parts(steps_to_run: Sequence[InstallStep]) -> list[str]:
    """Return the texts of the steps that are needed. Changes nothing."""
    return [missing for step in steps_to_run if (missing := step.check()) is not None]


def _releases_to_keep(host: Host, wanted: Release, before: Release | None) -> list[Release]:
    """Return the wanted release and the one to roll back to."""
    previous = release.previous(host) if before in {None, wanted} else before
    return [each for each in (wanted, previous) if each is not None]


def _check_old_releases(host: Host, wanted: Release, before: Release | None) -> str | None:
    old = release.all_except(host, _releases_to_keep(host, wanted, before))
    return f"remove {', '.join(each.name for each in old)}" if old else None


def _remove_old_releases(host: Host, wanted: Release, before: Release | None) -> None:
    for each in release.all_except(host, _releases_to_keep(host, wanted, before)):
        shutil.rmtree(each)
