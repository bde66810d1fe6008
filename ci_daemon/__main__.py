"""`python -m ci_daemon` is the `ci-daemon` command."""

from __future__ import annotations

import sys

from ci_daemon.command import main

sys.exit(main())
