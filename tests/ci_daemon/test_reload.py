"""A reload applies the settings that may change while jobs run, and names the others."""

from __future__ import annotations

import signal
from dataclasses import fields, replace
from pathlib import Path

import httpx

from actors import EngineSettings, JobSettings, PoolSettings
from api import HttpSettings
from ci_daemon.config import Config
from ci_daemon.config.keys import sections
from ci_daemon.reload import compare
from ci_daemon.settings import JournalSettings
from tests.ci_daemon.test_service import served, state
from tests.waiting import until

__all__ = ["state"]

OLD = Config()


def test_settings_that_may_change_live_are_applied():
    new = replace(OLD, pool=PoolSettings(max_vms=7, parked=0), journal=JournalSettings(level="debug"))
    changed = compare(OLD, new)
    assert changed.config == new
    assert str(changed) == "changed: journal.level, pool.max_vms, pool.parked"


def test_settings_that_need_a_restart_are_named():
    jobs = JobSettings(step_timeout=5, log_limit_bytes=9)
    changed = compare(OLD, replace(OLD, jobs=jobs, http=HttpSettings(listen="127.0.0.1:1")))
    assert changed.config == replace(OLD, jobs=JobSettings(step_timeout=5))
    assert str(changed) == "changed: jobs.step_timeout; needs a restart: http.listen, jobs.log_limit_bytes"


def test_a_nested_key_that_needs_a_restart_keeps_its_value():
    shape = replace(OLD.ir.default_shape, cpu=7)
    changed = compare(OLD, replace(OLD, ir=replace(OLD.ir, default_shape=shape), pool=PoolSettings(parked=0)))
    assert changed.config == replace(OLD, pool=PoolSettings(parked=0))
    assert str(changed) == "changed: pool.parked; needs a restart: ir.default_shape.cpu"


def test_each_live_key_is_in_a_section_that_a_reload_hands_on():
    live = {section.name for section in sections() for key in section.keys if key.live}
    assert live - {"journal"} <= {each.name for each in fields(EngineSettings)}


def test_the_same_configuration_changes_nothing():
    assert str(compare(OLD, Config())) == "nothing has changed"


def test_a_reload_applies_the_configuration_and_logs_the_result(state: Path):
    file = state / "ci-daemon.toml"
    with served(state) as daemon:

        def reload(text: str) -> list[str]:
            file.write_text(text)
            daemon.process.send_signal(signal.SIGHUP)
            assert daemon.notified()[0] == "RELOADING=1"
            return daemon.notified()

        def gauge(name: str) -> float:
            lines = httpx.get(f"{daemon.url}/metrics").text.splitlines()
            return float(next(line.split()[1] for line in lines if line.startswith(f"{name} ")))

        assert reload('[pool]\nmax_vms = 77\n[journal]\nlevel = "debug"\n') == [
            "READY=1",
            f"STATUS=serving on {daemon.url}",
        ]
        assert gauge("ci_daemon_vms_max") == 77
        assert "debug api.middleware.access_log: answered" in daemon.log.read_text()
        wrong = reload("[pool]\nmax_vms = 5\nparking = 1\n")
        assert (
            f"the configuration has an error and is not reloaded: {file}:3: pool.parking is not a setting" in wrong[1]
        )
        assert f"error ci_daemon.reload: the configuration is not reloaded: {file}:3: " in daemon.log.read_text()
        assert gauge("ci_daemon_vms_max") == 77
        fixed = reload("[pool]\nmax_vms = 5\n[billing]\ncpu = 1\n")
        assert fixed[1].endswith("; changed: journal.level, pool.max_vms; needs a restart: billing.cpu")
        assert gauge("ci_daemon_vms_max") == 5
        assert daemon.stop() == 0


def test_sigusr1_logs_threads_and_actors_and_ends_nothing(state: Path):
    with served(state) as daemon:
        dumped = (
            "warning ci_daemon.host.process: actor LeasePool urn:uuid:",
            ": 0 messages wait; no worker is under way",
            "process: thread MainThread",
            ", in _run\n",
        )

        def dump() -> bool:
            daemon.process.send_signal(signal.SIGUSR1)  # again if the main thread was not in its loop yet
            return all(text in daemon.log.read_text() for text in dumped)

        until(dump, "the dump", 20)
        assert httpx.get(f"{daemon.url}/healthz").text == "ok"
        assert daemon.stop() == 0
