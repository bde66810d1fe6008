"""What the tests of several packages need: the folder of VM images, and property tests that no clock fails."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

settings.register_profile("any machine", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("any machine")

_CHECKOUT = Path(__file__).parent.parent


def pytest_configure() -> None:
    """Let programs that tests start be interrupted, also where a shell ignores SIGINT for a background job."""
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture(scope="session")
def images_dir() -> Path:
    """The image store that `make setup` filled."""
    return Path(os.environ.get("CI_DAEMON_IMAGES_DIR") or _CHECKOUT / ".run" / "images")
