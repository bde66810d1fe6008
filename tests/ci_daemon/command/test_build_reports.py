"""`ci-daemon build outputs`, `annotations`, `summaries`, `tests` and `coverage`, on the box."""

from __future__ import annotations

import pytest

from storage import Annotation, AnnotationLevel, Build, JobOutputs, JobSummary, NewBuild, Storage
from tests.ci_daemon.conftest import Run, RunJson
from tests.records import new_job, new_pipeline

JUNIT = b'<testsuite><testcase classname="c" name="bad"><failure/></testcase><testcase name="good"/></testsuite>'
LCOV = b"SF:/workspace/a.py\nDA:1,1\nDA:2,0\nend_of_record\n"


@pytest.fixture
def build(storage: Storage) -> Build:
    pipeline = new_pipeline(storage, email="ada@example.org")
    build = storage.builds.create(pipeline, NewBuild("main", "c0ffee"), [new_job("make"), new_job("lint")])
    make, lint = storage.jobs.of_build(build.id)
    storage.told.store_outputs(JobOutputs(make.id, build.id, {"VERSION": "1.2"}, None))
    storage.told.store_summary(JobSummary(make.id, build.id, "# Done\n\x1b[31m", is_cut=False))
    said = [Annotation(AnnotationLevel.ERROR, "is wrong", "a.py", 3, 7), Annotation(AnnotationLevel.NOTICE, "is well")]
    storage.told.store_annotations(lint.id, build.id, said)
    write = storage.artifacts.files.write
    files = [write(build.uuid, "junit.xml", [JUNIT]), write(build.uuid, "cover.info", [LCOV])]
    storage.artifacts.store(build, make, files)
    return build


def test_outputs_are_listed_by_job(build: Build, run_json: RunJson):
    row = {"job": "make", "name": "VERSION", "value": "1.2"}
    assert run_json("build", "outputs", f"acme/web/{build.number}") == [row]
    assert run_json("build", "outputs", "acme/web/1", "--job", "lint") == []


def test_annotations_are_listed_by_what_is_asked_for(build: Build, run_json: RunJson):
    def places(*more: str) -> list[str]:
        return [each["place"] for each in run_json("build", "annotations", f"acme/web/{build.number}", *more)]

    assert places() == ["a.py:3:7", ""]
    assert places("--level", "notice") == [""]
    assert places("--path", "a.py", "--job", "lint", "--limit", "1") == ["a.py:3:7"]
    assert places("--job", "make") == []


def test_a_summary_cannot_control_the_terminal(build: Build, run: Run, capsys: pytest.CaptureFixture[str]):
    assert run("build", "summaries", f"acme/web/{build.number}") == 0
    assert capsys.readouterr().out == "# make\n\n# Done\n [31m\n"


def test_tests_and_coverage_come_from_reports(build: Build, run_json: RunJson):
    name = f"acme/web/{build.number}"
    assert [each["name"] for each in run_json("build", "tests", name)] == ["bad", "good"]
    passed = run_json("build", "tests", name, "--outcome", "passed", "--job", "make")
    assert [each["name"] for each in passed] == ["good"]
    assert run_json("build", "coverage", name)["percent"] == 50.0
    assert [each["path"] for each in run_json("build", "coverage", name, "--files")] == ["a.py"]
