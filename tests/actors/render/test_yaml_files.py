"""YAML files of an archive, read on the host in a confined process."""

from __future__ import annotations

import io
import json
import tarfile
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest

from actors.render import RenderFailed
from actors.render.mistakes import without_excerpts
from actors.render.yaml_files import ArchiveSource, FilesInvalid, JobFiles, YamlFiles
from storage import Rendered
from storage.files import Bounds, Confinement
from tests.e2e.sources import archive
from tests.rendering import documents_of

ONE = "jobs: {a: {run: make, cache: {files: 'src/*.c'}}}"
DAY = 86_400


@pytest.fixture(scope="module")
def confinement() -> Iterator[Confinement]:
    made = Confinement()
    yield made
    made.close()


class Source:
    """An archive and its manifest."""

    def __init__(self, confinement: Confinement, folder: Path) -> None:
        self._confinement = confinement
        self._archive, self._manifest = folder / "source.tar.gz", folder / "manifest"

    def read(self, files: dict[str, str] | bytes, now: float = 0) -> YamlFiles:
        """Return what the YAML files of an archive declare."""
        self._archive.write_bytes(files if isinstance(files, bytes) else archive(files))
        others = partial(JobFiles().find, "acme", strangers=False)
        return ArchiveSource(self._confinement, "acme", self._archive, self._manifest, 2**30, now, others).read()

    def mistakes(self, files: dict[str, str] | bytes) -> list[str]:
        """Return the mistakes of an archive's YAML files."""
        with pytest.raises(FilesInvalid) as caught:
            self.read(files)
        return list(map(str, caught.value.mistakes))


@pytest.fixture
def source(confinement: Confinement, tmp_path: Path) -> Source:
    return Source(confinement, tmp_path)


def test_each_file_is_a_pipeline(source: Source):
    files = {".hm/b.yaml": ONE, ".hm/a.yml": f"slug: first\n{ONE}", ".hm/deep/c.yml": "{", "d.yml": "{", "src/x.c": "1"}
    found = source.read(files)
    assert found.alone
    assert [each["slug"] for each in found.pipelines] == ["first", "b"]
    assert [each["slug"] for each in json.loads(found.rendered().envelope)["pipelines"]] == ["first", "b"]


USED = "inputs: {of: {default: all}}\nimage: debian:12\nrun: make ${{ with.of }}\n"


def test_a_pipeline_uses_files_of_folders(source: Source):
    ci = "jobs:\n  a: {use: jobs/make.yml, with: {of: docs}}\n  b: {use: jobs/make.yml, needs: a}\n"
    (found,) = source.read({".hm/ci.yml": ci, ".hm/jobs/make.yml": USED, ".hm/jobs/broken.yml": "{"}).pipelines
    assert found["definition"]["jobs"] == {
        "a": {"image": "debian:12", "run": "make docs"},
        "b": {"image": "debian:12", "run": "make all", "needs": ["a"]},
    }


def test_a_command_alone_has_no_files_of_other_repositories(source: Source):
    (found,) = source.mistakes({".hm/ci.yml": "jobs: {a: {use: acme/ci//jobs/make.yml@v1}}"})
    assert found.startswith(".hm/ci.yml:1:12: jobs.a.use: only a service that the repositories are connected to has")


def test_files_that_cannot_be_used_are_told(source: Source):
    names = {"a": "mak", "b": "bad", "c": "bad", "d": "to"}
    ci = "jobs:\n" + "".join(f"  {key}: {{use: jobs/{name}.yml}}\n" for key, name in names.items())
    files = {".hm/ci.yml": ci, ".hm/jobs/make.yml": USED, ".hm/jobs/bad.yml": "imge: x\nrun: [\n"}
    buffer = io.BytesIO(archive(files))
    with tarfile.open(fileobj=buffer) as tar:
        members = [(each, tar.extractfile(each)) for each in tar.getmembers()]
        out = io.BytesIO()
        with tarfile.open(fileobj=out, mode="w:gz") as made:
            for member, content in members:
                made.addfile(member, content)
            link = tarfile.TarInfo(".hm/jobs/to.yml")
            link.type, link.linkname = tarfile.SYMTYPE, "make.yml"
            made.addfile(link)
    assert source.mistakes(out.getvalue()) == [
        '.hm/ci.yml:2:7: jobs.a.use: there is no file ".hm/jobs/mak.yml": did you mean "jobs/make.yml"?',
        ".hm/ci.yml:5:7: jobs.d.use: expected a file, and there is a link",
        ".hm/jobs/bad.yml:3:1: did not find expected node content",
    ]


STEP = "{{name: {}, image: a, commands: [make]}}"
FILTERED = f"when: {{event: push, branch: main}}\nsteps:\n- {STEP.format('a')}\n- {STEP.format('b')}\n"
TASKS = "image: debian/stable\nsources: [https://git.sr.ht/~me/tool]\ntasks: [{check: make}]\n"


def test_other_systems_files_are_read_where_there_are_no_own(source: Source):
    found = source.read({".woodpecker.yml": FILTERED, ".builds/deb.yml": TASKS, ".woodpecker/deep/x.yml": "{", "x": ""})
    assert found.alone
    assert [each["slug"] for each in found.pipelines] == ["ci", "deb"]
    declared = found.pipelines[0]
    assert list(declared["definition"]["jobs"]) == ["a", "b"]
    assert (declared["triggers"], declared["allow_manual"]) == ([{"event": "push", "branches": ["main"]}], False)
    assert b".builds/deb.yml:1: image: tasks run as root" in found.rendered().log


def test_a_folder_of_woodpecker_comes_before_its_file(source: Source):
    folder = {f".woodpecker/{name}.yml": f"steps: [{STEP.format(name)}]" for name in "ba"}
    found = source.read({".woodpecker.yml": "{", **folder})
    assert [each["slug"] for each in found.pipelines] == ["a", "b"]


def test_other_systems_files_are_not_read_beside_own(source: Source):
    found = source.read({".hm/ci.yml": "jobs: {a: {run: make}}", ".woodpecker.yml": FILTERED, ".build.yml": "{"})
    assert [each["slug"] for each in found.pipelines] == ["ci"]
    assert source.read({".hm/ci.py": "", ".woodpecker.yml": FILTERED}).pipelines == ()


@pytest.mark.parametrize(
    ("text", "mistake"),
    [
        (
            f"{FILTERED}- {{name: p, image: plugins/ecr, settings: {{a: b}}}}\n",
            ":5: p.image: the whole job is left out",
        ),
        (
            FILTERED.replace("b, i", "b, depends_on: [], i")
            + "- {name: p, image: x, commands: [p], depends_on: [a, b]}\n",
            ":5: p: it waits for a, b",
        ),
        (f"{FILTERED}services: [{{name: db, image: redis}}]\n", ":5: services: each step has services"),
        ("steps: {\n", ":2: expected the node"),
        (f"steps: [{STEP.format('a')}]\nsteps: []\n", ":2: steps stands twice"),
        ("steps:\n  " + "[" * 60, "nested too deeply"),
        (
            "a: &a [x, x, x, x, x, x, x, x, x]\n"
            + "".join(f"{n}: &{n} [{', '.join([f'*{m}'] * 9)}]\n" for m, n in zip("abcdefg", "bcdefgh", strict=True)),
            "aliases expand",
        ),
        (FILTERED.replace("[make]", "['${{ build.branch }}']"), "${{"),
    ],
)
def test_what_is_lost_of_other_systems_files_is_a_mistake(source: Source, text: str, mistake: str):
    found = source.mistakes({".woodpecker.yml": text})
    assert any(mistake in each.replace(":1: ", ": ") for each in found), found


def test_a_link_in_place_of_another_systems_file_is_a_mistake(source: Source):
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w:gz") as tar:
        link = tarfile.TarInfo(".build.yml")
        link.type, link.linkname = tarfile.SYMTYPE, "x"
        tar.addfile(link)
    assert source.mistakes(packed.getvalue()) == [".build.yml:1:1: expected a file, and there is a link"]


def test_the_content_of_named_files_makes_the_key_of_a_cache(source: Source):
    def key(**files: str) -> str:
        document = source.read(
            {".hm/ci.yml": ONE, **{name.replace("_", "/", 1) + ".c": text for name, text in files.items()}}
        )
        key: str = document.pipelines[0]["definition"]["jobs"]["a"]["cache"]["key"]
        return key

    keys = [key(src_x="1"), key(src_x="2"), key(src_y="1"), key(src_x="1", src_y="1")]
    assert len(set(keys)) == len(keys)
    assert key(src_x="1", doc_z="1") == keys[0]


def test_an_archive_without_yaml_declares_nothing(source: Source):
    found = source.read({".hm/a.py": "", "ci.yml": ONE})
    assert (found.pipelines, found.alone) == ((), False)


def test_python_files_beside_them_are_rendered_too(source: Source):
    found = source.read({".hm/ci.yml": "jobs: {a: {run: x}}", ".hm/other.py": ""})
    assert not found.alone
    others = Rendered(json.dumps({"schema_version": "1", "pipelines": [{"slug": "other"}]}), b"log")
    both = found.with_others(others)
    assert [each["slug"] for each in json.loads(both.envelope)["pipelines"]] == ["other", "ci"]
    assert both.log == b"log"
    twice = Rendered(json.dumps({"schema_version": "1", "pipelines": [{"slug": "ci"}]}), b"")
    with pytest.raises(RenderFailed, match=r"two files of \.hm declare the pipeline 'ci'"):
        found.with_others(twice)


def rendered(text: str, *others: str) -> Rendered:
    """Return what a VM makes of a file in the service's language, beside pipelines of the DSL."""
    pipelines = [{"slug": each} for each in others]
    envelope = {"schema_version": "1", "pipelines": pipelines, "documents": documents_of(text), "of_build": False}
    return Rendered(json.dumps(envelope), b"log")


PYTHON = """
from ci_daemon.language import files, job, pipeline

@pipeline("py", on={"push": {"branches": "main"}})
def py():
    job("a", run="make", cache=files("src/*.c"))
"""


def test_documents_of_python_files_become_pipelines(source: Source):
    found = source.read({".hm/ci.py": PYTHON, ".hm/ci.yml": ONE, "src/x.c": "1"})
    made = json.loads(found.with_others(rendered(PYTHON, "other")).envelope)
    other, python, yaml = made["pipelines"]
    assert (other["slug"], python["slug"], yaml["slug"]) == ("other", "py", "ci")
    assert python["triggers"] == [{"event": "push", "branches": ["main"]}]
    assert python["definition"]["jobs"] == yaml["definition"]["jobs"] | {
        "a": {**python["definition"]["jobs"]["a"], "cache": {**yaml["definition"]["jobs"]["a"]["cache"]}}
    }
    with pytest.raises(RenderFailed, match=r"two files of \.hm declare the pipeline 'py'"):
        found.with_others(rendered(PYTHON, "py"))


def test_mistakes_of_python_files_have_the_lines_of_calls(source: Source):
    text = PYTHON + "    job('b', imge='x', needs='c', run='x')\n    job('d', cpu='2', run='x')\n"
    with pytest.raises(FilesInvalid) as caught:
        source.read({".hm/ci.py": text, "src/x.c": ""}).with_others(rendered(text))
    assert str(caught.value).splitlines() == [
        '.hm/ci.py:7:5: jobs.b.imge: unknown key "imge": did you mean "image"?',
        *(first := ["  7 |     job('b', imge='x', needs='c', run='x')", "    |     ^"]),
        '.hm/ci.py:7:5: jobs.b.needs[0]: unknown job "c": there is "a", "d"',
        *first,
        '.hm/ci.py:8:5: jobs.d.cpu: expected a whole number, got "2"',
        *["  8 |     job('d', cpu='2', run='x')", "    |     ^"],
    ]
    assert caught.value.log == b"log"
    missing = source.read({".hm/ci.py": PYTHON})
    with pytest.raises(FilesInvalid, match=r"^\.hm/ci\.py:6:5: jobs\.a\.cache\.files: no file of the repository"):
        missing.with_others(rendered(PYTHON))


def test_a_mistake_shows_its_line_and_a_caret(source: Source):
    text = "name: ci\njobs:\n  a:\n    run: make\n    needs: [b]\n    imge: x\n"
    with pytest.raises(FilesInvalid) as caught:
        source.read({".hm/ci.yml": text})
    assert str(caught.value).splitlines() == [
        '.hm/ci.yml:5:13: jobs.a.needs[0]: unknown job "b"',
        "  5 |     needs: [b]",
        "    |             ^",
        '.hm/ci.yml:6:5: jobs.a.imge: unknown key "imge": did you mean "image"?',
        "  6 |     imge: x",
        "    |     ^",
    ]
    assert without_excerpts(str(caught.value)).splitlines() == list(map(str, caught.value.mistakes))


def test_documents_that_no_loader_wrote_are_refused(source: Source):
    found = source.read({".hm/ci.py": ""})
    for documents in ([{}], [{"file": "a", "document": 1, "marks": [[1]]}], [3], {"a": [{}]}):
        envelope = {"schema_version": "1", "pipelines": [], "documents": documents}
        with pytest.raises(RenderFailed):
            found.with_others(Rendered(json.dumps(envelope), b""))


def test_all_mistakes_of_all_files_are_told(source: Source):
    files = {
        ".hm/a.yml": "jobs: {a: {run: x, nedes: b}}",
        ".hm/b.yml": "jobs:\n  a: {run: [}\n",
        ".hm/c.yml": "slug: d\njobs: {a: {run: x, cache: {files: gone}}}",
        ".hm/d.yml": "jobs: {a: {run: x}}",
        ".hm/e.yml": "slug: d\njobs: {a: {run: x}}",
    }
    assert source.mistakes(files) == [
        '.hm/a.yml:1:20: jobs.a.nedes: unknown key "nedes": did you mean "needs"?',
        ".hm/b.yml:2:13: did not find expected node content",
        '.hm/c.yml:2:28: jobs.a.cache.files: no file of the repository matches "gone"',
        '.hm/e.yml:1:1: another file declares the pipeline "d", too: give one of them another slug',
    ]


def test_a_file_that_is_no_text_is_a_mistake(source: Source):
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w:gz") as tar:
        info = tarfile.TarInfo(".hm/a.yml")
        info.size = 4
        tar.addfile(info, io.BytesIO(b"a:\n\xff"))
        link = tarfile.TarInfo(".hm/b.yml")
        link.type, link.linkname = tarfile.SYMTYPE, "a.yml"
        tar.addfile(link)
    assert source.mistakes(buffer.getvalue()) == [
        ".hm/a.yml:2:1: the file is not UTF-8",
        ".hm/b.yml:1:1: expected a file, and there is a link",
    ]


def test_very_many_or_large_files_are_refused(source: Source):
    many = {f".hm/{number:03}.yml": "jobs: {a: {run: x}}" for number in range(101)}
    assert source.mistakes(many) == [".hm/100.yml:1:1: the YAML files are more than 100, or more than 1024 KiB"]
    large = {f".hm/{number}.yml": "#" * 2**18 for number in range(5)}
    assert source.mistakes(large)[-1] == ".hm/4.yml:1:1: the YAML files are more than 100, or more than 1024 KiB"


def test_what_takes_more_than_its_bounds_fails_the_render(source: Source, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("actors.render.yaml_files._BOUNDS", Bounds(cpu_seconds=1, memory_bytes=4 << 20, seconds=20))
    text = f"jobs: {{a: {{run: x, needs: [{'b, ' * 30_000}]}}}}"
    with pytest.raises(RenderFailed, match=r"the YAML files in \.hm cannot be read: it took more than"):
        source.read({".hm/ci.yml": text})
