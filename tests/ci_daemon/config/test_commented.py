from __future__ import annotations

import re
import tomllib
from dataclasses import replace
from pathlib import Path

from ci_daemon.config import Config, commented_configuration, explain, load
from ci_daemon.config.keys import sections

UNCOMMENTED = r"(?m)^#(?=\[|\w+ = )"


def loaded(folder: Path, text: str) -> Config:
    (folder / "ci-daemon.toml").write_text(text)
    return load(folder, {}, folder / "none")


def test_as_it_stands_it_changes_nothing(tmp_path: Path):
    assert loaded(tmp_path, commented_configuration()) == Config()


def test_the_values_in_comments_are_the_defaults(tmp_path: Path):
    config = loaded(tmp_path, re.sub(UNCOMMENTED, "", commented_configuration()))
    assert config.http.base_url == "https://ci.example.org"
    assert config.identity.oidc["example"].client_id == "ci-daemon"
    as_default = replace(
        config,
        github=replace(config.github, private_key=None),
        http=replace(config.http, base_url=None, front_end_url=None),
        identity=replace(config.identity, rp_id=None, oidc={}),
        images=Config().images,
        incus=Config().incus,
        previews=replace(config.previews, url=None),
        repositories=replace(config.repositories, ca_file=None, fork_provider=None),
        sandbox=replace(config.sandbox, base_image=None),
    )
    assert as_default == Config()


def test_every_key_is_there_below_the_head_of_its_section(tmp_path: Path):
    tables = tomllib.loads(re.sub(UNCOMMENTED, "", commented_configuration()))
    for setting in explain(tmp_path, {}, tmp_path / "none"):
        found = tables
        for key in setting.name.split("."):
            assert key in found, setting.name
            found = found[key]


def test_every_section_describes_its_keys():
    for section in re.split(r"\n(?=#?\[)", commented_configuration())[1:]:
        head, comment, *_ = section.splitlines()
        assert re.match(r"# [A-Z].{20}", comment), head


def test_a_key_that_needs_a_restart_is_marked():
    noted = re.findall(r"((?:^# .*\n)*)#(\w+) = ", commented_configuration(), re.MULTILINE)
    said = [(key, "A change needs a restart." in " ".join(comment.split("\n# "))) for comment, key in noted]
    assert said == [(key.name, not key.live) for section in sections() for key in section.keys]
