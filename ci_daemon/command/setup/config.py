"""`ci-daemon config`: show and check the configuration."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

import click

from ci_daemon import config as configuration
from ci_daemon import doctor
from ci_daemon.command.support.command_classes import Group
from ci_daemon.command.support.exit_codes import ExitCode
from ci_daemon.command.support.session import Session, pass_session
from ci_daemon.config.validation import to_toml

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ci_daemon.config import Config, Setting

_HIDDEN = "(hidden)"
_OTHERS_MAY_READ = 0o004


@click.group(cls=Group)
def config() -> None:
    """The configuration: `ci-daemon.toml`, overridden by the environment."""


@config.command(reads=True)
@pass_session
def check(session: Session) -> ExitCode:
    """Read the configuration as `serve` does, and check the state directory and the default image.

    Every error is shown with its file and line, or its environment variable. Exit code 0: the service would start with
    it, perhaps with warnings; 1: it would not.
    """
    file = configuration.configuration_file(session.state_dir)
    errors: list[str] = []
    warnings: list[str] = []
    try:
        warnings = list(_warnings(session, session.config(), file))
    except configuration.ConfigError as error:
        errors = str(error).splitlines()
    lines = [*(f"error: {each}" for each in errors), *(f"warning: {each}" for each in warnings)]
    name = str(file or "the configuration without a file")
    verdict = f"{name}: the service cannot start with it" if errors else f"{name} is valid"
    session.answer(
        {"file": file and str(file), "valid": not errors, "errors": errors, "warnings": warnings},
        "\n".join([*lines, verdict]),
    )
    return ExitCode.FAILURE if errors else ExitCode.SUCCESS


@config.command(reads=True)
@click.option("--commented", is_flag=True, help="Print a ci-daemon.toml instead, with every key explained.")
@pass_session
def show(session: Session, *, commented: bool) -> None:
    """Show every key with its value and its origin: file and line, environment, or default.

    Passwords and tokens are not shown.
    """
    if commented:
        text = configuration.commented_configuration()
        session.answer({"configuration": text}, text.rstrip("\n"))
        return
    session.table([_document(each, json=session.json) for each in _settings(session)], ("key", "value", "from"), "")


def _warnings(session: Session, config: Config, file: Path | None) -> Iterator[str]:
    """Yield warnings about a configuration without errors."""
    for found in (doctor.state_directory(session.state_dir), doctor.default_image(session.state_dir, config)):
        if not found.ok:
            yield found.detail + (f": run `{found.fix}`" if found.fix else "")
    secrets = [each.name for each in _settings(session) if each.secret and each.value]
    if file is not None and secrets and file.stat().st_mode & _OTHERS_MAY_READ:
        yield f"others may read {file}, which holds {' and '.join(secrets)}: run `chmod o-r {file}`"


def _settings(session: Session) -> list[Setting]:
    return configuration.explain(session.state_dir, os.environ)


def _document(setting: Setting, *, json: bool) -> dict[str, object]:
    value = _HIDDEN if setting.secret and setting.value else setting.value
    return {
        "key": setting.name,
        "value": _json_value(value) if json else to_toml(value),
        "from": setting.origin or "default",
    }


def _json_value(value: object) -> object:
    """Return a setting's value in types that JSON has."""
    match value:
        case Path():
            return str(value)
        case Mapping():
            return dict(value)
        case _:
            return value
