"""A `ci-daemon` in a boot of the host of its own, whose id is in the file BOOT_ID."""

from __future__ import annotations

import os
import sys
from pathlib import Path

from ci_daemon.command import main
from storage.database import clock

if __name__ == "__main__":
    clock.BOOT_ID_FILE = Path(os.environ["BOOT_ID"])
    sys.exit(main())
