"""Real build tools on cached disks: no build may pass because its sources look old."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.e2e.daemon import Build, Pipeline
from tests.e2e.pipelines import Graph
from tests.e2e.sources import archive
from tests.toolchain import TOOLCHAIN, build_toolchain

pytestmark = pytest.mark.long

MAKEFILE = "app: main.c answer.h\n\t$(CC) -o $@ main.c\n"
CMAKE = 'cmake_minimum_required(VERSION 3.18)\nproject(app C)\nset(CMAKE_C_FLAGS "-Wall")\nadd_executable(app main.c)\n'
MAIN = '#include <stdio.h>\n#include "answer.h"\nint main(void) { return printf("the answer is %d\\n", ANSWER) < 0; }\n'
HEADER = "#define ANSWER 42\n"
NINJA = "cmake -S . -B build -G Ninja >/dev/null && ninja -C build && build/app"
CALCULATOR = "def add(a, b):\n    return a + b\n"
CHECK = "import calculator\n\nassert calculator.add(2, 2) == 4\nassert calculator.add(1, 2) == 3\n"


@pytest.fixture(scope="module", autouse=True)
def toolchain(images_dir: Path) -> None:
    build_toolchain(images_dir)


def built(pipeline: Pipeline, command: str, **files: str) -> Build:
    """Run a command in a cached step and in a step on its disk; the first step's next build is a hit."""
    graph = Graph().step("deps", command, image=TOOLCHAIN, cache={"policy": "forever", "key": "k"})
    graph.step("test", command, builds_in="deps")
    sources = {name.replace("__", "/").replace("_", "."): text for name, text in files.items()}
    build = pipeline.build(graph.ir(), source=archive(sources))
    build.finish(120)
    return build


def test_make_sees_a_source_that_does_not_compile(pipeline: Pipeline):
    files = {"Makefile": MAKEFILE, "answer_h": HEADER}
    first = built(pipeline, "make && ./app", **files, main_c=MAIN)
    assert first.states() == {"deps": "passed", "test": "passed"}
    assert first.log("test") == "make: 'app' is up to date.\nthe answer is 42\n"
    second = built(pipeline, "make && ./app", **files, main_c=MAIN + "oh no\n")
    assert second.states() == {"deps": "passed", "test": "failed"}
    assert second.jobs()["deps"]["cache_hit"]
    assert "main.c:4:" in second.log("test")


def test_make_rebuilds_after_a_one_byte_change_and_no_more(pipeline: Pipeline):
    files = {"Makefile": MAKEFILE, "main_c": MAIN}
    built(pipeline, "make && ./app", **files, answer_h=HEADER)
    changed = built(pipeline, "make && ./app", **files, answer_h=HEADER.replace("42", "43"))
    assert "the answer is 43\n" in changed.log("test")
    same = built(pipeline, "make && ./app", **files, answer_h=HEADER)
    assert same.log("test") == "make: 'app' is up to date.\nthe answer is 42\n"


def test_ninja_sees_headers_and_sources_that_changed(pipeline: Pipeline):
    files = {"CMakeLists_txt": CMAKE, "main_c": MAIN}
    first = built(pipeline, NINJA, **files, answer_h=HEADER)
    assert first.log("test") == "ninja: Entering directory `build'\nninja: no work to do.\nthe answer is 42\n"
    changed = built(pipeline, NINJA, **files, answer_h=HEADER.replace("42", "43"))
    assert "the answer is 43\n" in changed.log("test")
    broken = built(pipeline, NINJA, **{**files, "main_c": MAIN + "oh no\n"}, answer_h=HEADER)
    assert broken.states()["test"] == "failed"


def test_python_does_not_run_byte_code_of_another_source(pipeline: Pipeline):
    check = "python3 check.py"
    assert built(pipeline, check, calculator_py=CALCULATOR, check_py=CHECK).states()["test"] == "passed"
    broken = built(pipeline, check, calculator_py=CALCULATOR.replace("+", "-"), check_py=CHECK)
    assert broken.states() == {"deps": "passed", "test": "failed"}, broken.log("test")
    assert "AssertionError" in broken.log("test")


def test_a_test_that_was_renamed_or_removed_does_not_run(pipeline: Pipeline):
    run = "for test in tests/*.py; do python3 $test; done; touch tests/made; ls"
    built(pipeline, run, tests__a_py="print('a')", tests__b_py="print('b')", old__a_txt="", old__b_txt="")
    second = built(pipeline, run, tests__b_py="print('b')", tests__c_py="print('a')", file_txt="")
    assert second.log("test") == "b\na\nfile.txt\ntests\n"


def test_what_a_parent_changed_its_child_builds_in(pipeline: Pipeline):
    graph = Graph().step("patch", "echo patched >file; touch -d 2001-01-01 other; rm third", image=TOOLCHAIN)
    graph.step("test", "cat file; stat -c %Y other; ls", builds_in="patch")
    files = {"file": "original\n", "other": "", "third": ""}
    build = pipeline.build(graph.ir(), source=archive(files))
    assert build.finish()["state"] == "passed"
    assert build.log("test") == "patched\n978307200\nfile\nother\n"
