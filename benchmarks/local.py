"""The time from the start of `ci-daemon run` to the first line of its first job, without a service."""

from __future__ import annotations

import os
import subprocess
import sys
from functools import partial
from itertools import count
from pathlib import Path
from time import perf_counter
from typing import TYPE_CHECKING

from benchmarks.figures import Benchmark, interleaved
from tests.e2e.pipelines import one

if TYPE_CHECKING:
    from collections.abc import Iterator

    from benchmarks.figures import Figure
    from benchmarks.testbed import Testbed

_ROUNDS = 10
_LINE = "the first line"
_PIPELINE = f"""
import harmont as hm

@hm.pipeline("demo")
def demo():
    return hm.sh("echo {_LINE}", label="greet")  # without a label its command is its name, in every line
"""
_IMPORTS = "import ci_daemon.command.projects.run, ci_daemon.local.service, ci_daemon.local.building, actors.engine"


def _measure(testbed: Testbed) -> Iterator[Figure]:
    tree = testbed.folder / "demo"
    (tree / ".hm").mkdir(parents=True)
    subprocess.run(["git", "init", "--quiet", tree], check=True)  # the folder around it is one that git ignores
    ir = testbed.folder / "demo.json"
    ir.write_text(one(f"echo {_LINE}"))
    run = partial(_first_line, testbed, tree)
    numbers = count()

    def changed() -> float:
        (tree / ".hm" / "demo.py").write_text(f"# {next(numbers)}\n{_PIPELINE}")
        return run()

    changed()
    yield interleaved("the files have changed", "ms", _ROUNDS, changed, _imports)
    yield interleaved("nothing has changed", "ms", _ROUNDS, run, _imports)
    yield interleaved("with --ir", "ms", _ROUNDS, lambda: run("--ir", str(ir)), _imports)


def _first_line(testbed: Testbed, tree: Path, *arguments: str) -> float:
    """Return the milliseconds from the start of the command to the first line of its job.

    Raises CalledProcessError if the build does not pass.
    """
    environ = {name: value for name, value in os.environ.items() if not name.startswith("CI_DAEMON_")}
    environ |= {"XDG_CACHE_HOME": str(testbed.folder / "cache"), "CI_DAEMON_IMAGES_DIR": str(testbed.images_dir)}
    argv = [str(Path(sys.executable).with_name("ci-daemon")), "run", str(tree), *arguments]
    took, started = 0.0, perf_counter()
    with subprocess.Popen(argv, env=environ, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        for line in process.stdout:
            if not took and _LINE in line:
                took = (perf_counter() - started) * 1000
    if process.returncode != 0:
        raise subprocess.CalledProcessError(process.returncode, argv)
    return took


def _imports() -> float:
    started = perf_counter()
    subprocess.run([sys.executable, "-c", _IMPORTS], check=True)
    return (perf_counter() - started) * 1000


LOCAL = Benchmark(
    name="local",
    title="From the start of `ci-daemon run` to the first line of its first job",
    baseline="an interpreter that imports the modules of the command and the engine, and ends.",
    measure=_measure,
)
