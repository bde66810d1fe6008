"""Services of jobs go on while the daemon is killed, and their logs are whole."""

from __future__ import annotations

import json

from tests.e2e.daemon import Daemon, Pipeline

COUNT = "n=0; while n=$((n+1)); do echo $n; sleep 0.05; done"
DOCUMENT = {
    "version": "1",
    "jobs": {
        "only": {
            "run": "for n in $(seq 1 40); do echo at $n; sleep 0.1; done",
            "services": {"db": {"image": "debian:12", "command": ["sh", "-c", COUNT], "ready": {"log": "3"}}},
        }
    },
}


def test_services_are_found_again_after_kills(daemon: Daemon, pipeline: Pipeline) -> None:
    """No line is lost or there twice, neither of the job nor of the service."""
    build = pipeline.build(json.dumps(DOCUMENT))
    for seen in ("at 5\n", "at 20\n"):
        build.says(seen)
        daemon.kill()
        daemon.start()
    assert build.finish()["state"] == "passed"
    assert build.log() == "services are ready: db\n" + "".join(f"at {number}\n" for number in range(1, 41))
    job = build.jobs()["only"]
    assert job["services"] == ["db"]
    answered = build.client.request("GET", f"{build.path}/jobs/{job['id']}/services/db/log")
    numbers = [int(line) for line in answered.text.split()]
    assert numbers == list(range(1, len(numbers) + 1))
    assert len(numbers) > 40
