from __future__ import annotations

import json
from dataclasses import fields, is_dataclass
from pathlib import Path

import pytest

from ci_daemon.config import Config, ConfigError, load
from ci_daemon.config.validation import named_sections


def variables(section: object, prefix: str) -> dict[str, object]:
    """Return the default of each setting, by environment variable; sections that are not there have none."""
    found: dict[str, object] = {}
    named = dict(named_sections(section))
    for field in fields(section):  # type: ignore[arg-type]
        if (field.name,) in named:
            continue
        name, value = f"{prefix}_{field.name.upper()}", getattr(section, field.name)
        found |= variables(value, name) if is_dataclass(value) else {name: value}
    return found


EVERYTHING = variables(Config(), "CI_DAEMON")


def as_text(value: object) -> str:
    if isinstance(value, tuple):
        return ",".join(map(str, value))
    if isinstance(value, str | Path):
        return str(value)
    if value is None or isinstance(value, int | float):
        return json.dumps(value) if value is not None else ""
    return "{" + ", ".join(f"{json.dumps(key)} = {json.dumps(inner)}" for key, inner in dict(value).items()) + "}"  # type: ignore[call-overload]


def test_every_key_may_be_set_in_the_environment(tmp_path: Path):
    environ = {name: as_text(value) for name, value in EVERYTHING.items()}
    assert len(environ) > 20
    assert load(tmp_path, environ, tmp_path / "none") == Config()


@pytest.mark.parametrize("name", sorted(name for name, value in EVERYTHING.items() if type(value) is int))
def test_each_variable_sets_its_own_key_and_no_other(tmp_path: Path, name: str):
    other = 170 if EVERYTHING[name] != 170 else 171
    changed = variables(load(tmp_path, {name: str(other)}, tmp_path / "none"), "CI_DAEMON")
    assert changed == {**EVERYTHING, name: other}


def test_the_state_directorys_file_replaces_the_systems(tmp_path: Path):
    """The two files are not merged."""
    system = tmp_path / "system.toml"
    system.write_text("[pool]\nparked = 5\n[jobs]\nstep_timeout = 9\n")
    assert load(tmp_path, {}, system).pool.parked == 5
    (tmp_path / "ci-daemon.toml").write_text("[pool]\nparked = 6\n")
    config = load(tmp_path, {}, system)
    assert (config.pool.parked, config.jobs.step_timeout) == (6, Config().jobs.step_timeout)


def test_variables_of_the_command_are_not_settings(tmp_path: Path):
    environ = {"CI_DAEMON_URL": "http://x", "CI_DAEMON_TOKEN": "ci_x", "CI_DAEMON_STATE_DIR": "/x"}
    assert load(tmp_path, environ, tmp_path / "none") == Config()


def test_names_that_are_nearly_right_are_suggested(tmp_path: Path):
    with pytest.raises(ConfigError, match=r"CI_DAEMON_IMAGE_DIR .* did you mean CI_DAEMON_IMAGES_DIR\?"):
        load(tmp_path, {"CI_DAEMON_IMAGE_DIR": "/x"}, tmp_path / "none")


def test_addresses_that_are_none_are_refused_where_they_stand(tmp_path: Path):
    (tmp_path / "ci-daemon.toml").write_text('\n[http]\nlisten = "everywhere"\n')
    with pytest.raises(ConfigError, match=r"ci-daemon\.toml:3: http: listen must be HOST:PORT"):
        load(tmp_path, {}, tmp_path / "none")


def test_sections_that_do_not_fit_together_are_refused(tmp_path: Path):
    address = {"CI_DAEMON_HTTP_BASE_URL": "https://ci.example.org"}
    load(tmp_path, {**address, "CI_DAEMON_IDENTITY_RP_ID": "example.org"}, tmp_path / "none")
    with pytest.raises(ConfigError) as raised:
        load(tmp_path, {**address, "CI_DAEMON_IDENTITY_RP_ID": "example.com"}, tmp_path / "none")
    assert "identity.rp_id must be the host of http.base_url or a domain above it" in str(raised.value)


def test_errors_in_a_table_name_its_key(tmp_path: Path):
    file = tmp_path / "ci-daemon.toml"
    file.write_text('[images.map]\n"python:3" = "debian:13"\n')
    assert load(tmp_path, {}, tmp_path / "none").images.map == {"python:3": "debian:13"}
    file.write_text('[images]\nmap = {"python:3" = 3}\n')
    with pytest.raises(ConfigError, match=r"images\.map\.python:3: expected a string, got 3"):
        load(tmp_path, {}, tmp_path / "none")


@pytest.mark.parametrize(
    ("text", "line", "key", "now"),
    [
        ("[pool]\nwarm = 3\n", 2, "pool.warm", "pool.parked"),
        ("[pool]\n\nwarm_images = {}\n", 3, "pool.warm_images", "pool.parked"),
        ('[pool]\nparked = 1\n\n[pool.warm_images]\n"debian:13" = 1\n', 4, "pool.warm_images", "pool.parked"),
        ("[repositories]\ndepth = 3\n", 2, "repositories.depth", "source.depth"),
        ("[repositories]\nmax_source_mb = 3\n", 2, "repositories.max_source_mb", "source.max_mb"),
        ('[sources]\nfork_provider = "qemu"\n', 2, "sources.fork_provider", "repositories.fork_provider"),
    ],
)
def test_keys_of_earlier_releases_are_refused_with_the_new(tmp_path: Path, text: str, line: int, key: str, now: str):
    (tmp_path / "ci-daemon.toml").write_text(text)
    with pytest.raises(ConfigError) as refusal:
        load(tmp_path, {}, tmp_path / "none")
    assert str(refusal.value).endswith(f"/ci-daemon.toml:{line}: {key} is now {now}")


@pytest.mark.parametrize("name", ["CI_DAEMON_POOL_WARM", "CI_DAEMON_POOL_WARM_IMAGES"])
def test_variables_of_earlier_releases_are_refused_too(tmp_path: Path, name: str):
    with pytest.raises(ConfigError, match=rf"^{name} in the environment is now CI_DAEMON_POOL_PARKED$"):
        load(tmp_path, {name: "2"}, tmp_path / "none")


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        ("CI_DAEMON_BILLING_CPU", "-1", "billing.cpu: expected a whole number of at least 0, got -1"),
        ("CI_DAEMON_POOL_MAX_VMS", "-1", "pool.max_vms: expected a whole number of at least 0, got -1"),
        ("CI_DAEMON_POOL_PARKED", "-1", "pool.parked: expected a whole number of at least 0, got -1"),
        (
            "CI_DAEMON_POOL_IMAGE_PROVIDERS",
            '{alpine = "lxd"}',
            'pool.image_providers.alpine: expected "sandbox", "qemu" or "incus", got "lxd"',
        ),
        (
            "CI_DAEMON_POOL_LOW_DISK_GB",
            "nan",
            "pool.low_disk_gb: expected a number of at least 0 and below inf, got nan",
        ),
        (
            "CI_DAEMON_POOL_LOW_DISK_GB",
            "inf",
            "pool.low_disk_gb: expected a number of at least 0 and below inf, got inf",
        ),
        (
            "CI_DAEMON_POOL_QUEUE_TIMEOUT",
            "1000000000",
            "pool.queue_timeout: expected a whole number from 0 to 946080000",
        ),
        ("CI_DAEMON_JOBS_STEP_TIMEOUT", "0", "jobs.step_timeout: expected a whole number of at least 1, got 0"),
        ("CI_DAEMON_JOBS_ACQUIRE_TIMEOUT", "nan", "jobs.acquire_timeout: expected a number above 0, got nan"),
        ("CI_DAEMON_JOBS_KILL_GRACE", "-0.5", "jobs.kill_grace: expected a number of at least 0, got -0.5"),
        ("CI_DAEMON_IR_MAX_JOBS", "0", "ir.max_jobs: expected a whole number of at least 1, got 0"),
        ("CI_DAEMON_IR_MAX_SHAPE_CPU", "0", "ir.max_shape.cpu: expected a whole number of at least 1, got 0"),
        ("CI_DAEMON_HTTP_THREADS", "160", "http: max_streams must be below threads (160), not 160"),
        (
            "CI_DAEMON_IMAGES_MAP",
            '{"python:3" = -1}',
            "images.map.python:3: expected a string, got -1",
        ),
        ("CI_DAEMON_RETENTION_LOGS_GB", "nan", "retention.logs_gb: expected a number from 0 to 100000, got nan"),
        ("CI_DAEMON_RETENTION_LOGS_GB", "100001", "retention.logs_gb: expected a number from 0 to 100000, got 100001"),
    ],
)
def test_values_that_make_no_sense_are_refused(tmp_path: Path, name: str, value: str, message: str):
    with pytest.raises(ConfigError) as refusal:
        load(tmp_path, {name: value}, tmp_path / "none")
    assert message in str(refusal.value)
