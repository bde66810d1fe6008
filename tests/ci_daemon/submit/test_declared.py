"""Slugs of pipelines, read from the text of pipeline files."""

from __future__ import annotations

from pathlib import Path

import pytest

from ci_daemon.submit.declared import declared_slugs, default_slug

SEVERAL = Path(__file__).parents[2] / "data" / "render"


def tree(folder: Path, **files: str) -> Path:
    (folder / "web-shop" / ".hm").mkdir(parents=True)
    for name, text in files.items():
        (folder / "web-shop" / ".hm" / f"{name}.py").write_text(text)
    return folder / "web-shop"


@pytest.mark.parametrize(
    ("text", "slug"),
    [
        ('import harmont as hm\n@hm.pipeline("release", name="Release")\ndef run(): ...\n', "release"),
        ('import harmont\n@harmont.pipeline(slug="release")\ndef run(): ...\n', "release"),
        ("import harmont as hm\n@hm.pipeline(timeout=900)\ndef nightly(): ...\n", "nightly"),
        ('from harmont import pipeline as p\n@p("release")\ndef run(): ...\n', "release"),
        ('import harmont as hm\n@hm.target()\ndef x(): ...\n@hm.pipeline("release")\ndef run(x): ...\n', "release"),
        ('from ci_daemon.language import job, pipeline\n@pipeline("release", name="R")\ndef run(): ...\n', "release"),
        ('from ci_daemon import language as l\n@l.pipeline("release")\ndef run(): ...\n', "release"),
        ('import ci_daemon.language\n@ci_daemon.language.pipeline("release")\ndef run(): ...\n', "release"),
        # if the text alone does not tell the slug, it is the folder's name
        ('import harmont as hm\nNAME = "re" + "lease"\n@hm.pipeline(NAME)\ndef run(): ...\n', "web-shop"),
        ('import harmont as hm\n@hm.pipeline(**{"slug": "x"})\ndef run(): ...\n', "web-shop"),
        ("import harmont as hm\n@hm.pipeline(\n", "web-shop"),
        ("\0", "web-shop"),
        ('import other as hm\n@hm.pipeline("release")\ndef run(): ...\n', "web-shop"),
    ],
)
def test_the_slug_is_the_one_that_the_dsl_gives(tmp_path: Path, text: str, slug: str):
    assert default_slug(tree(tmp_path, pipeline=text)) == slug


def test_a_pipeline_file_is_read_and_not_run(tmp_path: Path):
    text = f'import harmont as hm\nopen({str(tmp_path / "ran")!r}, "w")\n@hm.pipeline("release")\ndef run(): ...\n'
    assert declared_slugs(tree(tmp_path, pipeline=text)) == ["release"]
    assert not (tmp_path / "ran").exists()


def test_of_several_pipelines_none_is_chosen(tmp_path: Path):
    one, two = (f'import harmont as hm\n@hm.pipeline("{slug}")\ndef run(): ...\n' for slug in ("a", "b"))
    assert default_slug(tree(tmp_path, x=one, y=two)) == "web-shop"
    assert declared_slugs(SEVERAL / "05-multi") == ["ci", "nightly", "deploy"]
