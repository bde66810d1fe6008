"""The provider's library, which only services that take payments load."""

from __future__ import annotations

import subprocess
import sys


def test_a_service_without_payments_does_not_load_the_library():
    script = "import sys, api.app, ci_daemon.service; print(*sys.modules)"
    loaded = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True).stdout.split()
    assert "api.payments.provider" in loaded
    assert not {"stripe", "requests"} & set(loaded)
