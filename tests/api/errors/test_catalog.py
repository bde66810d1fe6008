from __future__ import annotations

import subprocess
import sys
from pathlib import Path

CHECKOUT = Path(__file__).parents[3]


def test_the_catalog_is_not_read_by_an_import():
    program = (
        "import api.app; from api.errors.catalog import error_catalog as read; assert not read.cache_info().misses"
    )
    subprocess.run([sys.executable, "-c", program], check=True, cwd=CHECKOUT)
