"""Run the benchmarks, or those that are named, and print what they find as it is found."""

from __future__ import annotations

import argparse
import logging
import signal
import sys
from time import perf_counter
from typing import TYPE_CHECKING, NoReturn

from rich.console import Console

from actors.vms import VmError
from benchmarks.attacks import ATTACKS
from benchmarks.builds import BUILDS
from benchmarks.cache import CACHE
from benchmarks.command import COMMAND
from benchmarks.console import CONSOLE
from benchmarks.cpu.report import CPU
from benchmarks.durability import DURABILITY
from benchmarks.files import FILES
from benchmarks.fleet import FLEET
from benchmarks.fork import FORK
from benchmarks.http import HTTP
from benchmarks.lease import LEASE
from benchmarks.local import LOCAL
from benchmarks.logs import LOGS
from benchmarks.machines import MACHINES
from benchmarks.pushes import PUSHES
from benchmarks.recovery import RECOVERY
from benchmarks.render import RENDER
from benchmarks.scale.host import AT_ONCE, DRAIN
from benchmarks.scale.report import SCALE
from benchmarks.services import SERVICES
from benchmarks.stock import STOCK
from benchmarks.testbed import open_testbed

if TYPE_CHECKING:
    from collections.abc import Sequence
    from types import FrameType

    from benchmarks.figures import Report

_ALL: dict[str, Report] = {
    benchmark.name: benchmark
    for benchmark in (
        LEASE,
        BUILDS,
        CPU,
        DURABILITY,
        LOGS,
        HTTP,
        FORK,
        SERVICES,
        FILES,
        CACHE,
        STOCK,
        RENDER,
        PUSHES,
        RECOVERY,
        COMMAND,
        LOCAL,
        CONSOLE,
        MACHINES,
        ATTACKS,
        SCALE,
        AT_ONCE,
        DRAIN,
        FLEET,
    )
}
_LONG = DRAIN.name


def main() -> int:
    """Run the benchmarks that the command line names; return an exit status."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument(
        "names", nargs="*", metavar="NAME", help=f"which of {', '.join(_ALL)}; all but {_LONG} by default"
    )
    names = parser.parse_args().names or [name for name in _ALL if name != _LONG]
    if unknown := [name for name in names if name not in _ALL]:
        parser.error(f"there is no benchmark {unknown[0]!r}; there are {', '.join(_ALL)}")
    signal.signal(signal.SIGTERM, _interrupt)
    logging.getLogger("paramiko").setLevel(logging.CRITICAL)
    console = Console(highlight=False)
    try:
        _run([_ALL[name] for name in names], console)
    except VmError as error:
        console.print(f"{error}\n`make setup` makes what is lacking.", markup=False)
        return 1
    except KeyboardInterrupt:
        return 130
    return 0


def _run(benchmarks: Sequence[Report], console: Console) -> None:
    started = perf_counter()
    for benchmark in benchmarks:
        with open_testbed() as testbed:
            report = benchmark.report(testbed)
        console.print(f"[bold]{benchmark.name}[/]: {benchmark.title}")
        console.print(report)
        console.print(f"Baseline: {benchmark.baseline}\n", style="dim", markup=False)
    console.print(f"All of it took {perf_counter() - started:.0f} s.")


def _interrupt(_number: int, _frame: FrameType | None) -> NoReturn:
    """Clean up on SIGTERM as on Ctrl-C."""
    raise KeyboardInterrupt


if __name__ == "__main__":
    sys.exit(main())
