"""`ci-daemon run` on the examples with services. Their images are of Debian's packages."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.ci_daemon.local.projects import Project, rest
from tests.registry import store_beside
from tests.servers import BASE, add_usual_images

EXAMPLES = Path(__file__).parents[3] / "examples"
NEW_DATABASE = "You can now start the database server"
PRINTED_ONCE = {
    "services": [NEW_DATABASE, "1000 loans"],
    "django": [NEW_DATABASE, "Applying books.0001_books... OK", "Using existing test database", "Ran 2 tests"],
    "image": ["hello, made in two stages"],
}


@pytest.fixture(scope="module")
def usual_images(images_dir: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """An image store with those that the examples name."""
    with store_beside(images_dir, tmp_path_factory.mktemp("usual") / "images") as folder:
        add_usual_images(folder)
        yield folder


@pytest.mark.parametrize("name", PRINTED_ONCE)
def test_an_example_with_services_passes(project: Project, usual_images: Path, name: str) -> None:
    """A test's database is a copy of the migrated one, and no new one."""
    project.tree, project.images = EXAMPLES / name, usual_images
    project.environ = {"CI_DAEMON_SANDBOX_BASE_IMAGE": BASE}
    with project.start_rendered("--json", stderr=subprocess.PIPE) as process:
        assert process.stderr is not None
        document = json.loads(rest(process))
        printed = process.stderr.read()
        assert process.wait(60) == 0, printed
    assert {job["state"] for job in document["jobs"]} == {"passed"}
    assert {text: printed.count(text) for text in PRINTED_ONCE[name]} == dict.fromkeys(PRINTED_ONCE[name], 1)
