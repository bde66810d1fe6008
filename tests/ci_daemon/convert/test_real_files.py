"""Files as people write them for other systems: what becomes of each is in one table."""

from __future__ import annotations

import json
import shutil
import tomllib
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from ci_daemon.command import main
from tests.rendering import planned_yaml

FILES = Path(__file__).parents[2] / "data" / "convert" / "real"
DOCS = Path(__file__).parents[3] / "docs" / "migration.md"
TABLE: dict[str, dict[str, Any]] = tomllib.loads((FILES / "verdicts.toml").read_text())
PLACES = {
    "drone": ".drone.yml",
    "forgejo": ".forgejo/workflows/{}",
    "github": ".github/workflows/{}",
    "gitlab": ".gitlab-ci.yml",
    "sourcehut": ".builds/{}",
    "woodpecker": ".woodpecker/{}",
}
SYSTEMS = {
    "GitHub": ["github"],
    "GitLab": ["gitlab"],
    "Woodpecker, builds.sr.ht": ["woodpecker", "sourcehut"],
    "Drone": ["drone"],
    "Forgejo": ["forgejo"],
}
VERDICTS = ("right", "right with notes", "in part", "refused")


def test_each_file_has_a_verdict():
    found = {path.relative_to(FILES).as_posix() for path in FILES.rglob("*.yml")}
    assert found == set(TABLE)
    assert len(found) >= 50


@pytest.mark.parametrize("name", TABLE)
def test_a_file_becomes_what_the_table_says(name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    system, _, file = name.partition("/")
    place = tmp_path / PLACES[system].format(file)
    place.parent.mkdir(parents=True, exist_ok=True)
    shutil.copy(FILES / name, place)
    code = main(["convert", str(tmp_path), "--json"])
    captured = capsys.readouterr()
    found: dict[str, Any] = json.loads(captured.out) if captured.out else {"texts": {}, "left_out": []}
    losses = [each["key"] for each in found["left_out"] if each["loss"]]
    jobs = [job.name for plan in planned_yaml(found["texts"]).values() for job in plan.jobs]
    verdict = "refused" if code == 1 else "in part" if losses else "right with notes" if found["left_out"] else "right"
    expected = TABLE[name]
    assert (verdict, jobs) == (expected["verdict"], expected.get("jobs", []))
    assert expected.get("because", "") in captured.err + " ".join(each["why"] for each in found["left_out"])


def counts(system: str) -> Counter[str]:
    return Counter(each["verdict"] for name, each in TABLE.items() if name.partition("/")[0] in SYSTEMS[system])


@pytest.mark.parametrize("system", SYSTEMS)
def test_the_docs_have_the_counts(system: str):
    found = counts(system)
    row = f"| {system} | {found.total()} | {' | '.join(str(found[each]) for each in VERDICTS)} |"
    assert row in DOCS.read_text()


@pytest.mark.parametrize(("system", "least"), [("GitHub", 18), ("GitLab", 7), ("Woodpecker, builds.sr.ht", 8)])
def test_most_files_are_right(system: str, least: int):
    found = counts(system)
    assert found["right"] + found["right with notes"] >= least
