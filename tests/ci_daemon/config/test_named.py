"""Sections whose names the configuration chooses."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from ci_daemon.config.reading import ConfigError, ConfigReader
from storage.settings import required_setting, setting


@dataclass(frozen=True, slots=True)
class Issuer:
    url: str = required_setting("The URL.", example="https://example.org")
    client_secret: str = required_setting("The secret.", example="hush", secret=True)
    scopes: tuple[str, ...] = setting(("openid",), "The scopes.")

    def __post_init__(self) -> None:
        if "openid" not in self.scopes:
            raise ValueError("scopes must have openid")


@dataclass(frozen=True, slots=True)
class Identity:
    open: bool = False
    issuers: Mapping[str, Issuer] = setting({}, "The issuers.")


@dataclass(frozen=True, slots=True)
class Sections:
    identity: Identity = field(default_factory=Identity)


@pytest.fixture
def reader():
    return ConfigReader(Sections(), "APP_", frozenset())


@pytest.fixture
def file(tmp_path: Path):
    return tmp_path / "app.toml"


CORP = '[identity.issuers.corp]\nurl = "https://corp"\nclient_secret = "hush"\n'


def test_there_may_be_none_or_several(reader: ConfigReader[Sections], file: Path):
    assert reader.read(None, {}).identity.issuers == {}
    file.write_text(CORP + CORP.replace("corp", "my-lab2"))
    assert reader.read(file, {}).identity.issuers == {
        "corp": Issuer("https://corp", "hush"),
        "my-lab2": Issuer("https://my-lab2", "hush"),
    }


@pytest.mark.parametrize(
    ("text", "line", "message"),
    [
        ('[identity.issuers.corp]\nurl = "u"\n', 1, "identity.issuers.corp.client_secret is missing: set it"),
        (CORP + "ur = 3\n", 4, "identity.issuers.corp.ur is not a setting: did you mean identity.issuers.corp.url?"),
        (CORP + "scopes = 'x'\n", 4, 'identity.issuers.corp.scopes: expected a list of strings, got "x"'),
        (CORP + "scopes = []\n", 4, "identity.issuers.corp: scopes must have openid"),
        ("[identity]\nissuers = 3\n", 2, "identity.issuers: expected a table of tables, got 3"),
        ("[identity.issuers]\ncorp = 3\n", 2, "identity.issuers.corp: expected a table, got 3"),
        *(
            (f'[identity.issuers."{name}"]\n', 1, f"identity.issuers.{name}: expected a name of lower-case letters")
            for name in ("", "Corp", "a_b", "a--b", "-a", "a-", "a b", "a/b", "..", "é", "1", "a" * 41)
        ),
    ],
)
def test_an_error_has_its_line_and_the_name_of_the_section(
    reader: ConfigReader[Sections], file: Path, text: str, line: int, message: str
):
    file.write_text(text)
    with pytest.raises(ConfigError) as refusal:
        reader.read(file, {})
    assert str(refusal.value).startswith(f"{file}:{line}: {message}")


def test_a_variable_sets_a_key_of_a_named_section(reader: ConfigReader[Sections], file: Path):
    file.write_text(CORP.replace("corp", "my-corp"))
    environ = {"APP_IDENTITY_ISSUERS_MY_CORP_CLIENT_SECRET": "other", "APP_IDENTITY_ISSUERS_MY_CORP_SCOPES": "a,openid"}
    assert reader.read(file, environ).identity.issuers == {
        "my-corp": Issuer("https://my-corp", "other", ("a", "openid"))
    }


def test_variables_alone_make_a_named_section(reader: ConfigReader[Sections]):
    environ = {"APP_IDENTITY_ISSUERS_LAB_URL": "u", "APP_IDENTITY_ISSUERS_LAB_CLIENT_SECRET": "s"}
    assert reader.read(None, environ).identity.issuers == {"lab": Issuer("u", "s")}


@pytest.mark.parametrize("name", ["APP_IDENTITY_ISSUERS", "APP_IDENTITY_ISSUERS_URL", "APP_IDENTITY_ISSUERS__URL"])
def test_a_variable_without_a_name_is_refused(reader: ConfigReader[Sections], name: str):
    with pytest.raises(ConfigError, match=f"^{name} in the environment is not a setting"):
        reader.read(None, {name: "x"})


def test_a_wrong_value_of_a_variable_names_the_variable(reader: ConfigReader[Sections], file: Path):
    file.write_text(CORP)
    with pytest.raises(ConfigError, match=r"^APP_IDENTITY_ISSUERS_CORP_SCOPES: identity\.issuers\.corp: scopes must"):
        reader.read(file, {"APP_IDENTITY_ISSUERS_CORP_SCOPES": "x"})


def test_each_key_is_explained_with_its_origin(reader: ConfigReader[Sections], file: Path):
    file.write_text(CORP)
    explained = reader.explain(file, {"APP_IDENTITY_ISSUERS_CORP_URL": "u"})
    assert [(each.name, each.value, each.origin, each.secret) for each in explained] == [
        ("identity.open", False, None, False),
        ("identity.issuers.corp.url", "u", "APP_IDENTITY_ISSUERS_CORP_URL", False),
        ("identity.issuers.corp.client_secret", "hush", f"{file}:3", True),
        ("identity.issuers.corp.scopes", ("openid",), None, False),
    ]
