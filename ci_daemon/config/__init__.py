"""The configuration: `ci-daemon.toml` and, over it, ``CI_DAEMON_<SECTION>_<KEY>`` in the environment."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from ci_daemon.config.commented import commented_configuration
from ci_daemon.config.reading import ConfigError, Reader, Setting
from ci_daemon.config.sections import Config, ImageSettings

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = [
    "Config",
    "ConfigError",
    "ImageSettings",
    "Setting",
    "commented_configuration",
    "explain",
    "file_of",
    "load",
]

FILE_NAME = "ci-daemon.toml"
SYSTEM_FILE = Path("/etc/ci-daemon") / FILE_NAME

_RESERVED = frozenset({"CI_DAEMON_STARTER", "CI_DAEMON_STATE_DIR", "CI_DAEMON_URL", "CI_DAEMON_TOKEN"})


def load(state_dir: Path, environ: Mapping[str, str], system_file: Path = SYSTEM_FILE) -> Config:
    """Return the configuration of a state directory.

    The state directory's own file is read if it exists, else the system's; they are not merged.

    Raises:
        ConfigError: a key or value is wrong; the message says where and what was expected.
    """
    return _reader().read(file_of(state_dir, system_file), environ)


def explain(state_dir: Path, environ: Mapping[str, str], system_file: Path = SYSTEM_FILE) -> list[Setting]:
    """Return every key with its value in effect and the origin of that value. Raises ConfigError."""
    return _reader().explain(file_of(state_dir, system_file), environ)


def file_of(state_dir: Path, system_file: Path = SYSTEM_FILE) -> Path | None:
    """Return the configuration file of a state directory, None if there is none."""
    return next((file for file in (state_dir / FILE_NAME, system_file) if file.exists()), None)


def _reader() -> Reader[Config]:
    return Reader(Config, "CI_DAEMON_", _RESERVED)
