from __future__ import annotations

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ci_daemon.config.reading import ConfigError, ConfigReader
from storage.settings import setting


@dataclass(frozen=True, slots=True)
class Size:
    cpu: int = setting(2, "The cores.", at_least=1, at_most=64)


@dataclass(frozen=True, slots=True)
class Web:
    listen: str = "127.0.0.1:8800"
    threads: int = 8
    origins: tuple[str, ...] = ()
    base_url: str | None = None
    level: Literal["low", "high"] = "low"
    timeout: float = setting(1.5, "The most seconds.", above=0)
    verbose: bool = False

    def __post_init__(self) -> None:
        if self.threads < 1:
            raise ValueError("expected at least 1 thread")
        if self.timeout > self.threads:
            raise ValueError("timeout must not be above threads")


@dataclass(frozen=True, slots=True)
class Store:
    dir: Path | None = None
    map: Mapping[str, str] = field(default_factory=dict)
    size: Size = field(default_factory=Size)
    counts: Mapping[str, int] = setting({}, "The count of each.", at_least=0)
    sizes: tuple[int, ...] = setting((), "The sizes.", at_most=9, below=9.5)


@dataclass(frozen=True, slots=True)
class Sections:
    web: Web = field(default_factory=Web)
    store: Store = field(default_factory=Store)


@pytest.fixture
def reader():
    return ConfigReader(Sections(), "APP_", frozenset({"APP_URL"}))


@pytest.fixture
def file(tmp_path: Path):
    return tmp_path / "app.toml"


def test_without_file_or_variables_everything_has_its_default(reader: ConfigReader[Sections]):
    assert reader.read(None, {"PATH": "/bin", "APP_URL": "http://elsewhere"}) == Sections()


def test_a_file_sets_keys_of_every_type(reader: ConfigReader[Sections], file: Path):
    file.write_text(
        '[web]\nlisten = "0.0.0.0:80"\nthreads = 4\norigins = ["a", "b"]\nbase_url = "http://ci"\n'
        'level = "high"\ntimeout = 2\nverbose = true\n'
        '[store]\ndir = "/srv/store"\nmap = {"x:1" = "y:2"}\n[store.size]\ncpu = 9\n'
    )
    assert reader.read(file, {}) == Sections(
        Web("0.0.0.0:80", 4, ("a", "b"), "http://ci", "high", 2.0, verbose=True),
        Store(Path("/srv/store"), {"x:1": "y:2"}, Size(9)),
    )


def test_the_environment_stands_above_the_file(reader: ConfigReader[Sections], file: Path):
    file.write_text('[web]\nthreads = 4\nlisten = "0.0.0.0:80"\n')
    environ = {
        "APP_WEB_THREADS": "5",
        "APP_WEB_ORIGINS": "a, b,",
        "APP_WEB_BASE_URL": "123",
        "APP_WEB_LEVEL": "high",
        "APP_WEB_TIMEOUT": "0.25",
        "APP_WEB_VERBOSE": "true",
        "APP_STORE_MAP": '{"x:1" = "y"}',
        "APP_STORE_SIZE_CPU": "3",
        "APP_STORE_DIR": "",
    }
    assert reader.read(file, environ) == Sections(
        Web("0.0.0.0:80", 5, ("a", "b"), "123", "high", 0.25, verbose=True), Store(None, {"x:1": "y"}, Size(3))
    )


def test_a_list_in_the_environment_may_be_toml(reader: ConfigReader[Sections]):
    assert reader.read(None, {"APP_WEB_ORIGINS": '["a,b", "c"]'}).web.origins == ("a,b", "c")


def test_relative_paths_start_at_the_file_or_working_directory(
    reader: ConfigReader[Sections], file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    """They start at the working directory if they are from the environment."""
    file.write_text('[store]\ndir = "images"\n')
    assert reader.read(file, {}).store.dir == tmp_path / "images"
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")
    assert reader.read(file, {"APP_STORE_DIR": "images"}).store.dir == tmp_path / "here" / "images"


@pytest.mark.parametrize(
    ("text", "line", "message"),
    [
        ("[web]\n# a comment\n\nthread = 4\n", 4, "web.thread is not a setting: did you mean web.threads?"),
        ("\n[wbe]\nthreads = 4\n", 2, "wbe is not a setting: did you mean web?"),
        ("[zzzzzzzz]\n", 1, "zzzzzzzz is not a setting"),
        ("[store.size]\ncpus = 4\n", 2, "store.size.cpus is not a setting: did you mean store.size.cpu?"),
        ('[web]\nlisten = """\na"""\nthreads = "4"\n', 4, 'web.threads: expected a whole number, got "4"'),
        ("web = 3\n", 1, "web: expected a table, got 3"),
        ("[web]\norigins = [\n  'a',\n  3,\n]\n", 2, "web.origins.1: expected a string, got 3"),
        ("[web]\nthreads = 0\n", 1, "web: expected at least 1 thread"),
        ("[web]\nthreads = 1\ntimeout = 2\n", 3, "web: timeout must not be above threads"),
        ("[web]\ntimeout = 0\n", 2, "web.timeout: expected a number above 0, got 0"),
        ("[web]\ntimeout = nan\n", 2, "web.timeout: expected a number above 0, got nan"),
        ("[store.size]\ncpu = 65\n", 2, "store.size.cpu: expected a whole number from 1 to 64, got 65"),
        ('[store.size]\ncpu = "4"\n', 2, 'store.size.cpu: expected a whole number from 1 to 64, got "4"'),
        ("[store]\ncounts = {x = -1}\n", 2, "store.counts.x: expected a whole number of at least 0, got -1"),
        ("[store]\nsizes = [1, 10]\n", 2, "store.sizes.1: expected a whole number at most 9 and below 9.5, got 10"),
        ('[web]\nlevel = "middle"\n', 2, 'web.level: expected "low" or "high", got "middle"'),
        ("[web]\nlisten = 2020-01-01\n", 2, "web.listen: expected a string, got 2020-01-01"),
        ("[web]\nverbose = 1\n", 2, "web.verbose: expected true or false, got 1"),
        ("[web]\nthreads = true\n", 2, "web.threads: expected a whole number, got true"),
        ("[web]\norigins = 'a'\n", 2, 'web.origins: expected a list of strings, got "a"'),
        ("[store]\nmap = {x = 1}\n", 2, "store.map.x: expected a string, got 1"),
        ("[store]\nmap = 1\n", 2, "store.map: expected a table of strings, got 1"),
        ("[web]\nthreads = 2020-01-01\n", 2, "web.threads: expected a whole number, got 2020-01-01"),
    ],
)
def test_an_error_in_the_file_has_line_key_and_expectation(
    reader: ConfigReader[Sections], file: Path, text: str, line: int, message: str
):
    file.write_text(text)
    with pytest.raises(ConfigError) as refusal:
        reader.read(file, {})
    assert str(refusal.value).startswith(f"{file}:{line}: {message}")


def test_all_faults_are_reported_together(reader: ConfigReader[Sections], file: Path):
    file.write_text("[web]\nthread = 4\ntimeout = true\n")
    with pytest.raises(ConfigError) as refusal:
        reader.read(file, {})
    assert len(str(refusal.value).splitlines()) == 2


def test_invalid_toml_is_reported_with_its_line(reader: ConfigReader[Sections], file: Path):
    file.write_text("[web]\nthreads = = 4\n")
    with pytest.raises(ConfigError, match=r"app\.toml:2: not TOML: "):
        reader.read(file, {})
    file.write_text("[web]\nthreads = 4\nports = [\n")
    with pytest.raises(ConfigError, match=r"app\.toml:3: not TOML: "):
        reader.read(file, {})
    file.write_text("[web]\n#threads = 4\n[web]\nthreads = 4\n")
    with pytest.raises(
        ConfigError, match=r"app\.toml:3: not TOML: .*; the section is there already: set its keys there"
    ):
        reader.read(file, {})


def test_an_unreadable_file_is_reported(reader: ConfigReader[Sections], file: Path):
    with pytest.raises(ConfigError, match="cannot be read"):
        reader.read(file, {})
    file.write_bytes(b"\xff\xfe")
    with pytest.raises(ConfigError, match="cannot be read"):
        reader.read(file, {})


def test_an_unknown_variable_is_refused_by_name(reader: ConfigReader[Sections]):
    with pytest.raises(ConfigError) as refusal:
        reader.read(None, {"APP_WEB_THREAD": "1", "APP_ZZZ": "2"})
    assert str(refusal.value).splitlines() == [
        "APP_WEB_THREAD in the environment is not a setting: did you mean APP_WEB_THREADS?",
        "APP_ZZZ in the environment is not a setting",
    ]


def test_a_wrong_value_in_the_environment_names_the_variable(reader: ConfigReader[Sections], file: Path):
    file.write_text("[web]\nthreads = 3\n")
    with pytest.raises(ConfigError, match=r'APP_WEB_THREADS: web\.threads: expected a whole number, got "two"'):
        reader.read(file, {"APP_WEB_THREADS": "two"})


def test_a_value_that_its_section_refuses_names_the_variable(reader: ConfigReader[Sections]):
    with pytest.raises(ConfigError, match=r"^APP_WEB_TIMEOUT: web: timeout must not be above threads"):
        reader.read(None, {"APP_WEB_TIMEOUT": "9"})


def test_a_variable_repairs_a_section_that_the_file_has_wrong(reader: ConfigReader[Sections], file: Path):
    file.write_text("web = 3\n")
    assert reader.read(file, {"APP_WEB_THREADS": "3"}).web == Web(threads=3)


@given(
    tables=st.dictionaries(
        st.sampled_from(["web", "store", "other"]),
        st.recursive(
            st.one_of(st.booleans(), st.integers(-9, 99), st.text("abc", max_size=3)),
            lambda inner: st.dictionaries(st.sampled_from(["listen", "threads", "dir", "size", "cpu", "x"]), inner),
        ),
    )
)
def test_any_file_gives_settings_or_a_fault_with_a_line(
    tmp_path_factory: pytest.TempPathFactory, tables: dict[str, object]
):
    file = tmp_path_factory.mktemp("any") / "app.toml"
    text = "".join(f"{key} = {_toml(value)}\n" for key, value in tables.items())
    assert tomllib.loads(text) == tables
    file.write_text(text)
    try:
        settings = ConfigReader(Sections(), "APP_", frozenset()).read(file, {})
    except ConfigError as refusal:
        for line in str(refusal).splitlines():
            number = int(line.removeprefix(f"{file}:").split(":")[0])
            assert 1 <= number <= len(tables)
    else:
        assert isinstance(settings, Sections)


def _toml(value: object) -> str:
    if isinstance(value, dict):
        return "{" + ", ".join(f"{key} = {_toml(inner)}" for key, inner in value.items()) + "}"
    return {True: "true", False: "false"}[value] if isinstance(value, bool) else repr(value)
