"""Builds as a user sees them, through the API of a real daemon with real VMs."""

from __future__ import annotations

import base64

from tests.e2e.daemon import Client, Daemon, Pipeline
from tests.e2e.pipelines import Graph, diamond, one


def test_a_command_runs_in_a_vm_and_its_output_is_its_log(pipeline: Pipeline):
    build = pipeline.build(one("echo hello; id -u; pwd; cat; echo oops >&2"))
    assert build.finish()["state"] == "passed"
    job = build.jobs()["only"]
    assert (job["state"], job["exit_code"], job["attempt"]) == ("passed", 0, 1)
    assert build.log() == "hello\n0\n/workspace\noops\n"


def test_the_service_overrides_the_builds_and_irs_environment(pipeline: Pipeline):
    """The build overrides the IR."""
    command = 'echo "$A $B $CI $CI_ORG $CI_PIPELINE $CI_BUILD_NUMBER $CI_STEP_KEY $CI_BRANCH $CI_ATTEMPT $HOME"'
    build = pipeline.build(one(command, env={"A": "ir", "B": "ir", "CI": "no"}), env={"B": "build"})
    build.finish()
    assert build.log() == f"ir build true {pipeline.client.org} demo 1 only main 1 /root\n"


def test_a_failure_skips_dependents_and_the_rest_runs(pipeline: Pipeline):
    graph = Graph().step("bad", "exit 3").step("needs-it", "true", after=("bad",)).step("other", "echo fine")
    graph.step("clean-up", "echo cleaned", after=("needs-it",), even_after_failure=True)
    build = pipeline.build(graph.ir())
    assert build.finish()["state"] == "failed"
    assert build.states() == {"bad": "failed", "needs-it": "skipped", "other": "passed", "clean-up": "passed"}
    bad = build.jobs()["bad"]
    assert (bad["exit_code"], bad["error_code"]) == (3, None)


def test_a_signal_gives_exit_code_128_plus_its_number(pipeline: Pipeline):
    build = pipeline.build(one("kill -9 $$"))
    build.finish()
    assert build.jobs()["only"]["exit_code"] == 137


def test_a_soft_failure_fails_no_build_and_dependents_run(pipeline: Pipeline):
    graph = Graph().step("flaky", "exit 1", runner_args={"soft_fail": True}).step("next", "true", after=("flaky",))
    build = pipeline.build(graph.ir())
    assert build.finish()["state"] == "passed"
    assert build.jobs()["flaky"]["soft_failed"]
    assert build.states() == {"flaky": "failed", "next": "passed"}


def test_a_failed_job_is_run_again_as_its_retry_policy_says(pipeline: Pipeline):
    build = pipeline.build(one('echo try $CI_ATTEMPT; test "$CI_ATTEMPT" = 3', runner_args={"retry": {"limit": 2}}))
    assert build.finish()["state"] == "passed"
    assert build.jobs()["only"]["attempt"] == 3
    assert [line for line in build.log().splitlines() if line.startswith("try")] == ["try 1", "try 2", "try 3"]


def test_a_fork_sees_its_parents_files_and_not_its_siblings(pipeline: Pipeline):
    graph = Graph().step("parent", "echo from-parent > file; mkdir /opt/tool; echo x > /opt/tool/x; rm /etc/motd || :")
    for key, sibling in (("left", "right"), ("right", "left")):
        graph.step(key, f"cat file /opt/tool/x; ls; touch {key}; test ! -e {sibling}", builds_in="parent")
    graph.step("grandchild", "ls; test -e left; test ! -e right", builds_in="left")
    build = pipeline.build(graph.ir())
    assert build.finish()["state"] == "passed", build.states()
    assert build.log("left") == "from-parent\nx\nfile\n"
    assert build.log("grandchild") == "file\nleft\n"


def test_a_diamond_of_50_jobs_runs_in_order(pipeline: Pipeline):
    build = pipeline.build(diamond(48))
    assert build.finish(120)["state"] == "passed"
    jobs = build.jobs()
    assert len(jobs) == 50
    assert all(job["state"] == "passed" for job in jobs.values())
    middle = [job for key, job in jobs.items() if key.startswith("middle")]
    assert jobs["source"]["finished_at"] <= min(job["started_at"] for job in middle)
    assert max(job["finished_at"] for job in middle) <= jobs["sink"]["started_at"]
    assert set(jobs["sink"]["depends_on"]) == {job["id"] for job in middle}


def test_an_unknown_image_fails_the_job_and_says_which_there_are(pipeline: Pipeline):
    build = pipeline.build(one("true", image="nonesuch:1"))
    assert build.finish()["state"] == "failed"
    job = build.jobs()["only"]
    assert job["error_code"] == "image_not_found"
    assert "nonesuch:1" in job["error_message"]


def test_the_dsls_image_for_root_steps_is_mapped_and_logged(pipeline: Pipeline):
    build = pipeline.build(one("echo ran", image="ubuntu:24.04"))
    assert build.finish()["state"] == "passed"
    assert "ubuntu:24.04" in build.log()
    assert build.log().endswith("ran\n")


def test_a_step_that_takes_too_long_is_timed_out(pipeline: Pipeline):
    build = pipeline.build(one("trap 'echo got TERM; exit 0' TERM; echo begun; sleep 600 & wait", timeout_seconds=1))
    assert build.finish()["state"] == "failed"
    job = build.jobs()["only"]
    assert (job["state"], job["error_code"]) == ("timed_out", "step_timeout")
    assert build.log() == "begun\ngot TERM\n"


def test_a_build_that_takes_too_long_is_timed_out_whole(pipeline: Pipeline):
    graph = Graph(timeout_seconds=2).step("long", "sleep 600").step("after", "true", after=("long",))
    build = pipeline.build(graph.ir())
    assert build.finish()["state"] == "failed"
    jobs = build.jobs()
    assert {job["state"] for job in jobs.values()} == {"timed_out"}
    assert jobs["long"]["error_code"] == "pipeline_timeout"


def test_each_job_is_debited_once_and_the_balance_follows(pipeline: Pipeline):
    client = pipeline.client
    before = client.get(f"/api/v0/billing/balance/{client.org}")["balance_cents"]
    graph = Graph().step("one", "sleep 1.1").step("two", "true", after=("one",)).step("bad", "exit 1", after=("two",))
    build = pipeline.build(graph.step("never", "true", after=("bad",)).ir())
    build.finish()
    entries = client.get(f"/api/v0/billing/transactions/{client.org}")["data"]
    debits = [entry for entry in entries if entry["source"] == "vm_lease_debit"]
    assert len(debits) == 3
    after = client.get(f"/api/v0/billing/balance/{client.org}")["balance_cents"]
    assert before + sum(entry["amount_cents"] for entry in debits) == after
    usage = client.get(
        f"/api/v0/billing/usage/{client.org}", params={"from": "2000-01-01T00:00:00Z", "to": "2100-01-01T00:00:00Z"}
    )
    assert usage["cpu_seconds"] >= 2
    assert usage["total_cents"] == -sum(entry["amount_cents"] for entry in debits)


def test_an_organization_without_credit_builds_and_is_debited(daemon: Daemon):
    poor = Client.create(daemon, "poor@example.org", cents=0)
    assert poor.pipeline().build(one("true")).finish()["state"] == "passed"
    (debit,) = poor.get(f"/api/v0/billing/transactions/{poor.org}")["data"]
    assert debit["source"] == "vm_lease_debit"
    assert poor.get(f"/api/v0/billing/balance/{poor.org}")["balance_cents"] == debit["amount_cents"] <= 0


def test_two_organizations_cannot_see_each_other(client: Client, daemon: Daemon):
    stranger = Client.create(daemon, f"stranger-of-{client.email}")
    build = client.pipeline().build(one("echo secret"))
    build.finish()
    job = build.jobs()["only"]["id"]
    theirs = f"/api/v0/organizations/{client.org}"
    for path in ("pipelines", "pipelines/demo", build.path, f"{build.path}/jobs", f"{build.path}/jobs/{job}/log"):
        response = stranger.request("GET", f"{theirs}/{path}")
        assert (response.status_code, response.json()["error"]["code"]) == (404, "organization_not_found")
    own = stranger.pipeline()
    own.build(one("true")).finish()
    response = stranger.request("GET", f"pipelines/{own.slug}/builds/1/jobs/{job}")
    assert response.status_code == 404


def test_an_invalid_source_archive_fails_the_job_that_needs_it(pipeline: Pipeline):
    build = pipeline.build(one("true"), source=base64.b64decode("bm90IGEgdGFyYmFsbA=="))
    assert build.finish()["state"] == "failed"
    assert build.jobs()["only"]["error_code"] == "source_fetch_failed"
