"""The page of a job, and what its script asks for."""

from __future__ import annotations

import json
import threading
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import pytest

from api.console import logs
from api.console.logs import Found
from tests import records
from tests.api.console.browser import Browser
from tests.api.world import Account, JobPath, PipelinePath, World


@pytest.fixture
def job(pipeline: PipelinePath) -> JobPath:
    return pipeline.build().job()


def page_of(job: JobPath) -> str:
    return f"/ada-example-org/pipelines/demo/builds/1/jobs/{job.uuid}"


def test_the_page_has_the_end_of_the_log_as_text(ada: Account, job: JobPath):
    job.write(b"\x1b[1m<script>alert(1)</script>\x1b[0m\n", b"10%\r100%\n")
    shown = Browser.of(ada).get(page_of(job)).text
    assert "&lt;script&gt;alert(1)&lt;/script&gt;\n100%\n" in shown
    assert "\x1b" not in shown


def test_the_first_block_of_an_ended_log_is_fetched_at_once(ada: Account, job: JobPath):
    job.write(b"text\n")
    assert 'data-first-bytes="0"' in Browser.of(ada).get(page_of(job)).text
    job.run_for(1)
    assert 'data-first-bytes="5"' in Browser.of(ada).get(page_of(job)).text


def test_the_outline_search_and_times_of_a_log(ada: Account, job: JobPath):
    job.write(b"one\n::group::G\n", b"two\n::endgroup::\n")
    browser, log = Browser.of(ada), f"{page_of(job)}/log"
    outline = browser.get(f"{log}/outline").json
    assert outline["newlines"] == [4]
    assert outline["groups"] == [{"title": "G", "first": 1, "last": 3, "seconds": 0.0}]
    assert outline["complete"] is False
    assert browser.get(f"{log}/search?q=TWO").json == {"count": 1, "lines": [2]}
    times = browser.get(f"{log}/times?first=0&end=5").json["times"]
    assert [end for end, _ in times] == [15]
    assert browser.get(log, headers={"Range": "bytes=4-12"}).text == "::group::"


def test_a_group_has_the_seconds_between_its_marks(ada: Account, job: JobPath):
    clock = ada.world.clock
    writer = ada.world.storage.logs.writer(job.build.stored.uuid, job.uuid, 1)
    for text, seconds in ((b"::group::A\n", 3.0), (b"work\n::endgroup::\n", 4.0), (b"::group::B\n", 9.0)):
        writer.output(text)
        clock.advance(seconds)
    writer.end()
    groups = Browser.of(ada).get(f"{page_of(job)}/log/outline").json["groups"]
    assert [(each["title"], each["seconds"]) for each in groups] == [("A", 3.0), ("B", None)]


def test_the_outline_of_a_long_log_comes_in_parts(ada: Account, job: JobPath):
    piece = b"a line of thirty-two characters\n" * 2**15
    job.write(*(piece for _ in range(9)))
    browser, url = Browser.of(ada), f"{page_of(job)}/log/outline"
    parts = [browser.get(url).json for _ in range(3)]
    assert [each["size"] // 2**20 for each in parts] == [4, 8, 9]
    assert [each["more"] for each in parts] == [True, True, False]
    assert sum(parts[-1]["newlines"]) == 9 * 2**15


def test_two_logs_are_searched_at_once(ada: Account, job: JobPath, monkeypatch: pytest.MonkeyPatch):
    """A search reads a whole log, so others wait, and are refused after a time."""
    job.write(b"text\n")
    begun, go = threading.Semaphore(0), threading.Event()

    def search(*_: object) -> Found:
        begun.release()
        assert go.wait(5)
        return Found(0, ())

    monkeypatch.setattr(logs, "search", search)
    monkeypatch.setattr(logs, "_SEARCH_SECONDS", 0.0)
    browser, url = Browser.of(ada), f"{page_of(job)}/log/search?q=text"
    with ThreadPoolExecutor(2) as threads:
        asked = [threads.submit(browser.get, url) for _ in range(2)]
        try:
            assert all(begun.acquire(timeout=5) for _ in asked)
            refused = browser.get(url)
        finally:
            go.set()
    assert (refused.status_code, refused.headers["Retry-After"]) == (503, "5")
    assert [each.result().status_code for each in asked] == [200, 200]
    assert browser.get(url).status_code == 200


@pytest.mark.parametrize("asked", ["search", "search?q=", f"search?q={'x' * 201}", "times", "times?first=-1&end=x"])
def test_a_malformed_question_is_refused(ada: Account, job: JobPath, asked: str):
    assert Browser.of(ada).get(f"{page_of(job)}/log/{asked}").status_code == 400


@pytest.mark.parametrize("part", ["", "/log", "/log/outline", "/log/search?q=x", "/log/times?first=0&end=1"])
def test_a_private_log_is_for_members(world: World, bob: Account, job: JobPath, part: str):
    assert Browser.of(bob).get(f"{page_of(job)}{part}").status_code == 404
    assert Browser(world).get(f"{page_of(job)}{part}").status_code in {303, 401}


def test_an_expired_log_is_said(ada: Account, job: JobPath):
    job.write(b"text\n")
    job.run_for(1)
    ada.world.storage.logs.remove(job.build.stored.uuid)
    shown = Browser.of(ada).get(page_of(job))
    assert shown.status_code == 200
    assert "There is no log any more" in shown.text


def test_members_see_the_vm_of_a_job_and_its_price(ada: Account, job: JobPath):
    job.run_for(3600)
    storage = ada.world.storage
    storage.billing = replace(storage.billing, require_credit=True)
    shown = Browser.of(ada).get(page_of(job)).text
    lease = ada.world.storage.leases.of_job(job.stored.id)
    assert lease is not None
    assert f"<dd>{lease.provider}, {lease.shape.cpu} CPU, {lease.shape.memory_gb} GB</dd>" in shown
    assert f"<dd>{lease.amount_cents / 100:.2f} USD</dd>" in shown
    storage.billing = replace(storage.billing, require_credit=False)
    assert "<dt>Cost</dt>" not in Browser.of(ada).get(page_of(job)).text
    ada.client.simulate_patch(f"{ada.path}/pipelines/demo", json={"visibility": "public"})
    assert "<dt>VM</dt>" not in Browser(ada.world).get(page_of(job)).text


def test_a_vm_on_a_cluster_has_its_member(ada: Account, job: JobPath):
    storage = ada.world.storage
    lease = records.assigned(storage, job.stored, provider="incus")
    assert storage.leases.active(lease.id, member="m2")
    assert "<dd>incus on m2, 2 CPU, 4 GB</dd>" in Browser.of(ada).get(page_of(job)).text


def test_page_links_to_the_logs_of_services(ada: Account, pipeline: PipelinePath) -> None:
    """Each is the text of the service's log, by the cookie."""
    document = {"version": "1", "jobs": {"a": {"run": "true", "services": {"db": {"image": "postgres:16"}}}}}
    job = pipeline.build(pipeline_ir=json.dumps(document)).job()
    with ada.world.storage.logs.service_writer(job.build.stored.uuid, job.uuid, "db", 1) as writer:
        writer.output(b"up\n")
    browser, link = Browser.of(ada), f"{page_of(job)}/services/db/log"
    assert '/services/db/log">db</a>' in browser.get(page_of(job)).text
    assert browser.get(link).text == "up\n"
