"""The former place of the launcher.

The broker of an earlier release runs on over an upgrade, and finds the programs of the new one by this path.
"""

from __future__ import annotations

from pathlib import Path

__path__ = [str(Path(__file__).parents[2] / "launcher")]
