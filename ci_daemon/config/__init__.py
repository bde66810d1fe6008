"""The configuration: `ci-daemon.toml` and, over it, ``CI_DAEMON_<SECTION>_<KEY>`` in the environment."""

from __future__ import annotations

from typing import TYPE_CHECKING

from storage import on_first_use

if TYPE_CHECKING:
    from ci_daemon.config.commented import commented_configuration
    from ci_daemon.config.loading import configuration_file, explain, load
    from ci_daemon.config.reading import ConfigError, Setting
    from ci_daemon.config.sections import Config
else:
    __getattr__ = on_first_use(__name__)
