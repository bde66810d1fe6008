"""The configuration of a state directory: its own file or the system's, and over it the environment."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

from ci_daemon.config.reading import ConfigReader
from ci_daemon.config.sections import Config

if TYPE_CHECKING:
    from collections.abc import Mapping

    from ci_daemon.config.reading import Setting

FILE_NAME = "ci-daemon.toml"
SYSTEM_FILE = Path("/etc/ci-daemon") / FILE_NAME

_RESERVED = frozenset({"CI_DAEMON_STARTER", "CI_DAEMON_STATE_DIR", "CI_DAEMON_URL", "CI_DAEMON_TOKEN"})


def load(state_dir: Path, environ: Mapping[str, str], system_file: Path = SYSTEM_FILE) -> Config:
    """Return the configuration of a state directory.

    The state directory's own file is read if it exists, else the system's; they are not merged.

    Raises:
        ConfigError: a key or value is wrong; the message says where and what was expected.
    """
    return _reader().read(configuration_file(state_dir, system_file), environ)


def explain(state_dir: Path, environ: Mapping[str, str], system_file: Path = SYSTEM_FILE) -> list[Setting]:
    """Return every key with its value in effect and the origin of that value. Raises ConfigError."""
    return _reader().explain(configuration_file(state_dir, system_file), environ)


def configuration_file(state_dir: Path, system_file: Path = SYSTEM_FILE) -> Path | None:
    """Return the configuration file of a state directory, None if there is none."""
    return next((file for file in (state_dir / FILE_NAME, system_file) if file.exists()), None)


@cache
def _reader() -> ConfigReader[Config]:
    return ConfigReader(Config(), "CI_DAEMON_", _RESERVED)
