"""The service under systemd: confined, with VMs in another unit, restarted, rebooted and watched.

Each test continues with the machine of the one before.
"""

from __future__ import annotations

import gzip
import hashlib
import json
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from actors.vms.host.control_groups import SERVICE_LIMITS
from tests.e2e.pipelines import one
from tests.mail_server import certificate
from tests.registry import HERE, MANIFEST, only_a_shell
from tests.system.machine import Machine
from tests.system.service import Build, Service, let_make_groups
from tests.waiting import until

UNITS = "/etc/systemd/system"
TICKS = 60
TICKING = f"for tick in $(seq {TICKS}); do echo tick $tick; sleep 0.25; done"


@pytest.fixture(scope="module")
def service() -> Iterator[Service]:
    with Machine() as machine:
        let_make_groups(machine)
        yield Service.installed_on(machine)


def test_it_is_confined_and_its_units_are_right(service: Service):
    for unit, most in {"ci-daemon.service": 3, "ci-daemon-vms.service": 7}.items():
        line = service.machine.run(f"systemd-analyze security --no-pager {unit}").stdout.splitlines()[-1]
        score = re.search(rf"level for {unit}: ([0-9.]+)", line)
        assert score, line
        assert float(score[1]) < most, line
    verified = service.machine.run("systemd-analyze verify --man=no ci-daemon.service ci-daemon-vms.service")
    assert (verified.stdout, verified.stderr) == ("", "")


def test_a_job_runs_in_a_vm_of_the_other_unit_within_its_shape(service: Service):
    build = service.build("su nobody -s /bin/sh -c id; nproc; cat /proc/self/status | grep NoNewPrivs; sleep 300")
    build.says("NoNewPrivs:\t0")
    tree = service.machine.run("systemctl status --no-pager --full ci-daemon-vms").stdout
    assert "sleep 300" in tree
    assert "sleep 300" not in service.machine.run("systemctl status --no-pager --full ci-daemon").stdout
    lines = service.machine.run("grep -H . /cgroup/memory/ci-daemon-*/memory.limit_in_bytes").stdout.splitlines()
    limits = {Path(file).parent.name: int(limit) for file, _, limit in (line.partition(":") for line in lines)}
    leases = json.loads(service.machine.run("ci-daemon lease list --json").stdout)
    shapes = {lease["id"]: lease["memory_gb"] * 2**30 for lease in leases if lease["job_id"] is not None}
    assert {name[-36:]: limit for name, limit in limits.items() if not name.endswith("@service")} == shapes
    assert {limit for name, limit in limits.items() if name.endswith("@service")} == {SERVICE_LIMITS.memory}
    assert "is not enforced" not in service.machine.journal("-u", "ci-daemon")
    service.ask("PUT", f"pipelines/demo/builds/{build.number}/cancel")
    until(lambda: build.state() == "canceled", "the cancel", 60)


def test_jobs_are_killed_first_and_the_doctor_checks_that(service: Service):
    """They cannot where this machine's root has CAP_SYS_RESOURCE, as on real hardware and in QEMU."""
    lower = "for score in -1000 -1 0 989; do echo $score >/proc/self/oom_score_adj && echo lowered; done"
    build = service.build(f"cat /proc/self/oom_score_adj; {lower}; true")
    build.passes()
    begins, *rest = build.log()
    own, broker = (
        int(service.machine.run(f"cat /proc/{service.property('MainPID', unit)}/oom_score_adj").stdout)
        for unit in ("ci-daemon", "ci-daemon-vms")
    )
    assert (own, broker, int(begins)) == (0, 990, 1000)
    checks = json.loads(service.machine.run("ci-daemon doctor --json", check=False).stdout)
    memory = {check["name"]: check for check in checks}["out of memory"]
    assert memory["ok"] is ("lowered" not in rest), (memory, rest)


def test_a_pull_reaches_no_loopback_address(service: Service, tmp_path: Path):
    """The service may make no network namespace in its unit, so the other unit starts what pulls."""
    host = serve_registry(service.machine, tmp_path)
    pulled, redirected = (pulling(service, f"{host}/{name}:1") for name in ("plain", "redirected"))
    pulled.passes()
    assert pulled.log()[-1] == "ran"
    until(lambda: redirected.state() == "failed", "the end of the pull", 120)
    assert any("cannot be pulled" in line for line in redirected.log()), redirected.log()
    asked = service.machine.journal("-u", "registry")
    assert "GET /v2/redirected/blobs/" in asked
    assert "the loopback was reached" not in asked


def test_jobs_survive_a_restart_and_their_logs_have_no_gap(service: Service):
    builds = [service.build(TICKING), service.build(TICKING)]
    for build in builds:
        build.says("tick 3")
    before = service.property("MainPID")
    service.machine.run("systemctl restart ci-daemon")
    assert service.property("MainPID") != before
    for build in builds:
        build.passes()
        assert build.log() == [f"tick {n + 1}" for n in range(TICKS)]
    assert "left-over process" not in service.machine.journal("-u", "ci-daemon")


def test_the_journal_finds_the_lines_of_a_build(service: Service):
    build = service.build("true")
    build.passes()
    passed = f"build {build.number} of {service.org}/demo is passed"
    until(lambda: passed in service.machine.journal("-u", "ci-daemon", f"CI_BUILD={build.uuid}"), passed, 30)
    of_job = service.machine.journal("-u", "ci-daemon", f"CI_JOB={build.job()['id']}", "PRIORITY=6")
    assert "attempt 1 of 'only' is running" in of_job
    assert "demo" not in of_job


def test_a_reload_applies_live_keys_and_names_the_rest(service: Service):
    file, before = "/etc/ci-daemon/ci-daemon.toml", service.property("MainPID")
    kept = service.machine.run(f"cat {file}").stdout

    def reloaded(text: str, expected: str) -> None:
        service.machine.run(f"cat >{file}", stdin=text)
        service.machine.run("systemctl reload ci-daemon")
        until(lambda: expected in service.property("StatusText"), f'the status "{expected}"', 30)

    reloaded("[pool]\nmax_vms = 3\n[billing]\ncpu = 1\n", "changed: pool.max_vms; needs a restart: billing.cpu")
    reloaded("[pool]\nmax_vms = 3\n\nparking = 1\n", f"{file}:4: pool.parking is not a setting")
    assert f"the configuration is not reloaded: {file}:4" in service.machine.journal("-u", "ci-daemon", "PRIORITY=3")
    service.machine.run(f"cat >{file}", stdin=kept)
    service.machine.run("systemctl reload ci-daemon")
    assert service.property("MainPID") == before


def test_a_signal_dumps_the_service_state(service: Service):
    service.machine.run("systemctl kill --kill-whom=main --signal=USR1 ci-daemon")
    journal = until(lambda: _saying(service, "dump: thread MainThread"), "the dump", 30)
    assert "actor LeasePool" in journal
    assert service.answers()


def test_one_that_hangs_is_killed_and_the_next_one_has_its_jobs(service: Service):
    service.machine.write(f"{UNITS}/ci-daemon.service.d/watch.conf", "[Service]\nWatchdogSec=5\n")
    service.machine.run("systemctl daemon-reload; systemctl restart ci-daemon")
    build = service.build(TICKING)
    build.says("tick 3")
    before = service.property("MainPID")
    service.machine.run(f"kill -STOP {before}")
    until(lambda: service.answers() and service.property("MainPID") != before, "another one", 120)
    assert "Watchdog timeout" in service.machine.journal("-u", "ci-daemon")
    build.passes()
    assert build.log() == [f"tick {n + 1}" for n in range(TICKS)]


def test_a_job_that_a_reboot_ended_is_tried_again(service: Service):
    build = service.build(TICKING)
    build.says("tick 3")
    service.machine.reboot()
    until(service.answers, "the service after the reboot", 60)
    build.passes()
    assert build.log()[-TICKS:] == [f"tick {n + 1}" for n in range(TICKS)]
    assert build.log().count("tick 1") == 2


def test_after_a_power_cut_nothing_is_lost_either(service: Service):
    build = service.build(TICKING)
    build.says("tick 3")
    service.machine.cut_power()
    service.machine.boot()
    until(service.answers, "the service after the power cut", 60)
    build.passes()
    assert build.log()[-TICKS:] == [f"tick {n + 1}" for n in range(TICKS)]
    verified = service.machine.run("ci-daemon ledger verify", check=False)
    assert verified.returncode == 0, verified.stderr


def test_the_key_may_be_a_credential_that_only_this_host_opens(service: Service):
    key, sealed = "/var/lib/ci-daemon/secret.key", "/etc/ci-daemon/secret.key.sealed"
    service.machine.run(f"systemd-creds encrypt --name=secret.key {key} {sealed}; mv {key} /root/")
    drop_in = f"{UNITS}/ci-daemon.service.d/key.conf"
    service.machine.write(drop_in, f"[Service]\nLoadCredentialEncrypted=secret.key:{sealed}\n")
    service.machine.run("systemctl daemon-reload; systemctl restart ci-daemon")
    assert service.answers()
    service.build("true").passes()
    service.machine.run(f"rm {drop_in}; systemctl daemon-reload; systemctl restart ci-daemon", check=False)
    assert "restore it from your backup" in service.machine.journal("-u", "ci-daemon", "-n", "20")
    service.machine.run(f"mv /root/secret.key {key}; systemctl reset-failed ci-daemon; systemctl restart ci-daemon")
    assert service.answers()


def _saying(service: Service, text: str) -> str | None:
    journal = service.machine.journal("-u", "ci-daemon")
    return journal if text in journal else None


def serve_registry(machine: Machine, folder: Path) -> str:
    """Run a registry with a small image, and let the service pull from it; return its host and port."""
    host, port, other = "registry.test", 8443, 8480
    _, trusted = certificate(folder, host)
    layer = only_a_shell()
    config = {"architecture": HERE, "os": "linux", "rootfs": {"type": "layers", "diff_ids": [named(layer)["digest"]]}}
    blobs = {"config": json.dumps(config).encode(), "layer": gzip.compress(layer, mtime=0)}
    kind = "application/vnd.oci.image"
    manifest = {
        "schemaVersion": 2,
        "mediaType": MANIFEST,
        "config": {"mediaType": f"{kind}.config.v1+json", **named(blobs["config"])},
        "layers": [{"mediaType": f"{kind}.layer.v1.tar+gzip", **named(blobs["layer"])}],
    }
    (folder / "manifest").write_text(json.dumps(manifest))
    for content in blobs.values():
        (folder / hashlib.sha256(content).hexdigest()).write_bytes(content)
    machine.put(folder, "/srv/registry")
    machine.put(trusted, "/usr/local/share/ca-certificates/registry.crt")
    machine.put(Path(__file__).with_name("redirecting_registry.py"), "/srv/registry.py")
    arguments = f"/srv/registry /srv/registry/{host}.both.pem {port} {other}"
    machine.run(f"update-ca-certificates; echo 127.0.0.1 {host} >>/etc/hosts")
    machine.run(f"systemd-run --quiet --unit registry python3 /srv/registry.py {arguments}")
    registries = f"[Service]\nEnvironment=CI_DAEMON_IMAGES_REGISTRIES={host}:{port}\n"
    machine.write(f"{UNITS}/ci-daemon.service.d/registry.conf", registries)
    machine.run("systemctl daemon-reload; systemctl restart ci-daemon")
    return f"{host}:{port}"


def named(content: bytes) -> dict[str, object]:
    """Return the digest and the size of a part of an image."""
    return {"digest": f"sha256:{hashlib.sha256(content).hexdigest()}", "size": len(content)}


def pulling(service: Service, image: str) -> Build:
    """Begin a build in an image that the host lacks."""
    body = {"branch": "main", "commit": "none", "pipeline_ir": one("echo ran", image=image)}
    made = service.ask("POST", "pipelines/demo/builds", body)
    return Build(service, made["number"], made["id"])
