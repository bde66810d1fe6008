"""Artifacts that jobs of GitHub and GitLab hand to others, as files of the jobs before them."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from actors.ir.systems import Omissions, convert_github, convert_gitlab, read
from storage import NewJob
from tests.actors.ir.systems.translation import Translated

ON = "on: push\njobs:\n"
RUNS = "runs-on: ubuntu-latest, container: a"


def github(text: str) -> Translated:
    omissions = Omissions("ci.yml")
    return Translated((convert_github(read(ON + text), "ci", omissions), omissions.all))


def gitlab(text: str) -> Translated:
    omissions = Omissions(".gitlab-ci.yml")
    return Translated((convert_gitlab(read(f"image: a\n{text}"), omissions), omissions.all))


def handed(upload: str, download: str, more: str = "") -> Translated:
    """Return two jobs, of which the one downloads what the other uploads."""
    return github(
        f"  b: {{{RUNS}, steps: [{{run: make}}, {{uses: actions/upload-artifact@v4, with: {{{upload}}}}}]{more}}}\n"
        f"  t: {{{RUNS}, needs: b, steps: [{{uses: actions/download-artifact@v4, with: {{{download}}}}},"
        f" {{run: cat found}}]}}\n"
    )


def last(found: Translated) -> NewJob:
    return found.plan().jobs[-1]


TREE = ("dist/a.whl", "dist/sub/c.txt", "dist/b.txt", "report.xml", "app")


@pytest.mark.parametrize(
    ("upload", "download", "globs", "there"),
    [
        ("name: x, path: dist/", "name: x, path: dist", ["dist/"], "dist/a.whl"),
        ("name: x, path: dist/", "name: x", ["dist/"], "sub/c.txt"),
        ("name: x, path: dist", "name: x, path: out", ["dist"], "out/sub/c.txt"),
        ("name: x, path: app", "name: x, path: out", ["app"], "out/app"),
        ("name: x, path: report.xml", "name: x", ["report.xml"], "report.xml"),
        ("name: x, path: dist/*.whl", "name: x, path: out", ["dist/*.whl"], "out/a.whl"),
        ("name: x, path: dist/**", "name: x, path: out", ["dist/**"], "out/sub/c.txt"),
        ("path: dist/", "", ["dist/"], "artifact/a.whl"),
        ('name: x, path: "dist/\\nreport.xml"', "name: x", ["**"], "report.xml"),
        ("name: x-1, path: dist/", "pattern: x-*, merge-multiple: true", ["dist/"], "a.whl"),
    ],
)
def test_files_are_where_github_lays_them(upload: str, download: str, globs: list[str], there: str, tmp_path: Path):
    found = handed(upload, download)
    job = last(found)
    assert (found.losses, job.files, job.name) == ([], {"b": globs}, "t")
    for each in TREE:
        (tmp_path / each).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / each).write_text(each)
    (tmp_path / "found").touch()
    done = subprocess.run(["bash", "-eo", "pipefail", "-c", job.command], cwd=tmp_path, check=False)
    assert done.returncode == 0
    assert (tmp_path / there).is_file()


@pytest.mark.parametrize(
    ("upload", "download", "why"),
    [
        ("name: x, path: dist/", "name: y", "no job that it needs uploads the artifact y"),
        ("name: x, path: /tmp/dist", "name: x", "not all that b uploads is kept here"),
        ("name: x, path: dist/", "name: x, run-id: 7", "artifacts of other runs"),
        ("name: x, path: dist/", "name: x, path: ../up", "../up is no plain folder"),
        ('name: x, path: "dist/\\nreport.xml"', "name: x, path: out", "relative to the workspace itself"),
        ('name: x, path: "dist/a/**/b"', "name: x, path: out", "only globs of names"),
        ("name: x, path: dist/$(id)", "name: x, path: out", "signs that a shell"),
        ("name: '${{ github.sha }}', path: dist/", "name: x", "the names of the artifacts of b are not known"),
    ],
)
def test_what_cannot_be_taken_leaves_the_job_out(upload: str, download: str, why: str):
    found = handed(upload, download)
    assert list(found.jobs) == ["b"]
    assert why in " ".join(each.why for each in found.omissions)


MATRIX = ", strategy: {matrix: {os: [x, y]}}"


def test_all_cells_give_their_artifacts():
    found = handed("name: 'of-${{ matrix.os }}', path: 'dist/*.whl'", "pattern: of-*, merge-multiple: true", MATRIX)
    assert last(found).files == {"b": ["dist/*.whl"]}
    assert found.losses == []


@pytest.mark.parametrize(
    ("upload", "download", "why"),
    [
        ("path: report.xml", "pattern: of-*, merge-multiple: true", "keeps a file of one name"),
        ("path: dist/", "name: of-x", "it takes some alone"),
        ("path: dist/", "pattern: of-*", "have the same paths: merge them"),
    ],
)
def test_cells_that_keep_one_path_are_not_mixed_up(upload: str, download: str, why: str):
    found = handed(f"name: 'of-${{{{ matrix.os }}}}', {upload}", download, MATRIX)
    assert all(job.name != "t" for job in found.plan().jobs)
    assert why in " ".join(each.why for each in found.omissions)


def test_an_artifact_of_a_job_that_is_not_needed_is_none():
    found = handed("name: x, path: dist/", "name: x").texts["ci.yml"]
    assert "files: {b: [dist/]}" in found
    text = f"  b: {{{RUNS}, steps: [{{run: x}}, {{uses: actions/upload-artifact@v4, with: {{path: y}}}}]}}\n"
    text += f"  t: {{{RUNS}, steps: [{{uses: actions/download-artifact@v4, with: {{name: artifact}}}}, {{run: x}}]}}\n"
    assert list(github(text).jobs) == ["b"]


def test_gitlab_hands_over_files_of_several_jobs():
    found = gitlab(
        "b: {stage: build, script: x, artifacts: {paths: [bin/]}}\n"
        "c: {stage: build, image: c, script: x, artifacts: {paths: [docs/, man.1]}}\n"
        "t: {stage: test, image: d, script: ls}\n"
    )
    assert (found.losses, last(found).files) == ([], {"b": ["bin/"], "c": ["**"]})
    assert found.jobs["t"] == ["b depends_on", "c depends_on"]
    assert "it takes the files of b, c: it fails where one has kept none" in found.told("t")


def test_dependencies_say_whose_files_a_job_takes():
    found = gitlab(
        "b: {stage: build, script: x, artifacts: {paths: [bin/]}}\n"
        "c: {stage: build, script: x, artifacts: {paths: [docs/]}}\n"
        "t: {stage: test, image: d, script: ls, dependencies: [c]}\n"
        "u: {stage: test, image: d, script: ls, needs: [{job: b, artifacts: true}, {job: c, artifacts: false}]}\n"
    )
    assert [job.files for job in found.plan().jobs] == [{}, {}, {"c": ["docs/"]}, {"b": ["bin/"]}]


@pytest.mark.parametrize(
    ("artifacts", "more", "why"),
    [
        ("paths: [node_modules/]", "", "node_modules/ has more files than a job may keep"),
        ("paths: [$OUT/x]", "", "not all of its paths are plain globs"),
        ("paths: [x/], exclude: [x/y]", "", "not all of its paths are plain globs"),
        ("paths: [x/], when: on_failure", "", "it keeps them only after a failure"),
        ("paths: [x/]", ", allow_failure: true", "it may fail"),
        ("paths: [x.txt]", ", parallel: 2", "keeps a file of one name"),
    ],
)
def test_files_that_gitlab_alone_hands_over_leave_the_job_out(artifacts: str, more: str, why: str):
    found = gitlab(
        f"b: {{stage: build, script: x, artifacts: {{{artifacts}}}{more}}}\nt: {{stage: test, image: d, script: ls}}\n"
    )
    assert all(job.name != "t" for job in found.plan().jobs)
    assert why in " ".join(each.why for each in found.omissions)


def test_variables_of_a_report_are_outputs():
    found = gitlab(
        "b: {stage: build, script: echo V=1 > v.env, artifacts: {reports: {dotenv: v.env}}}\n"
        "t: {stage: test, image: d, script: echo $V}\n"
        "u: {stage: deploy, image: d, script: echo $V}\n"
    )
    assert found.losses == []
    assert found.jobs == {"b": [], "t": ["b depends_on"], "u": ["b depends_on", "t depends_on"]}
    assert found.plan().jobs[0].command.endswith("""if [ -f './v.env' ]; then cat './v.env' >> "$CI_OUTPUT"; fi""")
    assert "one that a job declares itself wins there" in found.told("b.artifacts.reports.dotenv")


@pytest.mark.parametrize(
    "given",
    [
        "artifacts: {reports: {dotenv: '*.env'}}",
        "artifacts: {reports: {dotenv: ../v.env}}",
        "artifacts: {reports: {dotenv: v.env}, when: always}",
        "artifacts: {reports: {dotenv: v.env}}, parallel: 2",
    ],
)
def test_variables_that_cannot_be_outputs_leave_the_job_out(given: str):
    found = gitlab(f"a: {{script: x}}\nb: {{stage: build, script: x, {given}}}\nc: {{stage: .pre, script: x}}\n")
    assert list(found.jobs) == ["c"]
    assert "b.artifacts.reports.dotenv" in found.losses


def test_a_file_of_two_jobs_leaves_out_who_takes_it():
    found = gitlab(
        "b: {stage: build, script: x, artifacts: {paths: [a.txt]}}\n"
        "c: {stage: build, script: x, artifacts: {paths: [a.txt]}}\n"
        "t: {stage: test, image: d, script: ls}\n"
    )
    assert list(found.jobs) == ["b", "c"]


def test_large_folders_are_left_to_the_disk():
    found = gitlab(
        "b: {stage: build, script: x, artifacts: {paths: [dist/, node_modules/]}}\nt: {stage: test, script: ls}\n"
    )
    assert found.jobs == {"b": [], "t": ["b builds_in"]}
    assert found.plan().jobs[0].artifacts == ("dist/",)
    assert "at most 1,000 files" in found.told("b.artifacts.paths")


CACHES = """\
a: {script: x, cache: [{key: k, paths: [.cache/pip/, ./node_modules]}, {paths: [vendor/**]}]}
b: {script: x, cache: {paths: [a, b, c, d, e, f, g, h, i]}}
"""


def test_folders_that_others_cache_are_kept():
    found = gitlab(CACHES)
    a, b = found.plan().jobs
    assert (list(a.keep), list(b.keep)) == ([".cache/pip", "node_modules"], [])
    assert "kept for each branch" in found.told("a.cache")
    assert found.told("a.cache").count("name the folders in `keep`") == 1
    assert "name the folders in `keep`" in found.told("b.cache")
    steps = '{uses: actions/cache@v4, with: {path: "~/.npm\\nmodules", key: k}}, {run: x}'
    found = github(f"  a: {{{RUNS}, steps: [{steps}]}}\n")
    assert list(last(found).keep) == ["~/.npm", "modules"]
    setup = "{uses: actions/setup-python@v5, with: {python-version: '3.12', cache: pip}}, {run: x}"
    found = github(f"  a: {{runs-on: ubuntu-latest, steps: [{setup}]}}\n")
    assert list(last(found).keep) == ["~/.cache/pip"]
