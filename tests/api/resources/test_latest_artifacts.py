"""Artifacts by a stable address, and as pages: who may read them, and what such pages cannot do."""

from __future__ import annotations

import hashlib
from base64 import b64encode
from datetime import timedelta
from urllib.parse import quote

import pytest
from falcon import testing

from actors.ir import IrSettings, load
from storage import BuildState, NewBuild, NewOrigin, OriginEvent
from tests.api.console.browser import Browser
from tests.api.world import Account, BuildPath, PipelinePath, World, steps
from tests.clock import ManualClock

PAGE = b"<script>document.title = document.cookie</script>"


def passed(pipeline: PipelinePath, branch: str = "main", **files: bytes) -> BuildPath:
    """Return a build that passed and kept files."""
    build = pipeline.build(branch=branch, pipeline_ir=steps("one", "two"))
    keep(build, 0, files)
    builds = pipeline.account.world.storage.builds
    builds.move(build.stored.id, build.stored.state, BuildState.PASSED)
    return build


def keep(build: BuildPath, position: int, files: dict[str, bytes]) -> None:
    storage, stored = build.account.world.storage, build.stored
    found = [storage.artifacts.files.write(stored.uuid, path, [content]) for path, content in files.items()]
    storage.artifacts.store(stored, build.job(position).stored, found)


def file(client: testing.TestClient, pipeline: PipelinePath, path: str, **params: str) -> testing.Result:
    return client.simulate_get(f"{pipeline.path}/latest-artifacts/file", params={"path": path, **params})


def test_the_address_is_of_the_latest_build_that_passed(ada: Account, pipeline: PipelinePath):
    for content in (b"old", b"new"):
        passed(pipeline, **{"dist/app.txt": content})
    passed(pipeline, "feature/x", **{"dist/app.txt": b"feature"})
    keep(pipeline.build(), 0, {"dist/app.txt": b"unfinished"})

    answered = file(ada.client, pipeline, "dist/app.txt")
    assert (answered.status_code, answered.content) == (200, b"new")
    digest = hashlib.sha256(b"new")
    assert answered.headers["ETag"] == f'"{digest.hexdigest()}"'
    assert answered.headers["Repr-Digest"] == f"sha-256=:{b64encode(digest.digest()).decode()}:"
    assert answered.headers["Content-Disposition"].startswith('attachment; filename="app.txt"')
    assert answered.headers["Content-Type"] == "application/octet-stream"
    assert file(ada.client, pipeline, "dist/app.txt", branch="feature/x").content == b"feature"
    url = f"{pipeline.path}/latest-artifacts/file"
    part = ada.client.simulate_get(url, params={"path": "dist/app.txt"}, headers={"Range": "bytes=1-"})
    assert (part.status_code, part.content, part.headers["Content-Range"]) == (206, b"ew", "bytes 1-2/3")
    listed = ada.client.simulate_get(f"{pipeline.path}/latest-artifacts", params={"branch": "feature/x"}).json["data"]
    assert [(row["path"], row["sha256"]) for row in listed] == [
        ("dist/app.txt", hashlib.sha256(b"feature").hexdigest())
    ]


def test_of_several_jobs_one_is_named(ada: Account, pipeline: PipelinePath):
    build = passed(pipeline, a=b"one")
    keep(build, 1, {"a": b"two"})
    assert file(ada.client, pipeline, "a").content == b"two"
    assert file(ada.client, pipeline, "a", step="one").content == b"one"
    assert file(ada.client, pipeline, "a", step="three").json["error"]["code"] == "artifact_not_found"


@pytest.mark.parametrize("path", ["b", "../a", "/a", "a/", "./a", "x/../a", "..%2fa", "a\0", "", "%61"])
def test_only_the_path_itself_names_a_file(ada: Account, pipeline: PipelinePath, path: str):
    passed(pipeline, a=b"one")
    assert file(ada.client, pipeline, path).json["error"]["code"] == "artifact_not_found"


def test_a_branch_without_a_build_that_passed_has_none(ada: Account, pipeline: PipelinePath):
    keep(pipeline.build(), 0, {"a": b"one"})
    for path in ("latest-artifacts", "latest-artifacts/file?path=a"):
        answered = ada.client.simulate_get(f"{pipeline.path}/{path}")
        assert (answered.status_code, answered.json["error"]["code"]) == (404, "build_not_found")


def test_they_are_for_members_also_of_a_public_pipeline(
    world: World, ada: Account, bob: Account, pipeline: PipelinePath
):
    passed(pipeline, a=b"one")
    ada.client.simulate_patch(pipeline.path, json={"visibility": "public"})
    for path in (f"{pipeline.path}/latest-artifacts", f"{pipeline.path}/latest-artifacts/file?path=a"):
        assert world.anonymous.simulate_get(path).status_code == 401
        assert bob.client.simulate_get(path).status_code == 404


@pytest.fixture
def published(ada: Account, pipeline: PipelinePath) -> PipelinePath:
    """A private pipeline with public artifacts."""
    ada.client.simulate_patch(pipeline.path, json={"artifacts_public": True})
    return pipeline


def test_public_ones_are_read_by_anybody(world: World, ada: Account, bob: Account, published: PipelinePath):
    keep(passed(published, **{"a b&c": b"one"}), 1, {"a b&c": b"two"})
    for client in (world.anonymous, bob.client):
        listed = client.simulate_get(f"{published.path}/latest-artifacts").json["data"]
        got = [client.simulate_get(row["download_url"].removeprefix("https://ci.example.org")) for row in listed]
        assert [each.content for each in got] == [b"one", b"two"]
        (artifact,) = world.storage.artifacts.page_of_build(1, 1, None).rows
        pinned = client.simulate_get(f"{published.path}/builds/1/artifacts/{artifact.uuid}/download")
        assert pinned.status_code in {401, 404}
    (row, _) = ada.client.simulate_get(f"{published.path}/latest-artifacts").json["data"]
    assert "/builds/1/artifacts/" in row["download_url"]


@pytest.mark.parametrize("of", ["fork", "pull_request", "failed"])
def test_public_ones_are_of_own_branches_alone(world: World, ada: Account, published: PipelinePath, of: str):
    passed(published, a=b"ours")
    demo = world.storage.pipelines.by_slug(ada.org_id, "demo")
    assert demo is not None
    theirs = NewBuild("main", "0" * 40, from_fork=of == "fork")
    stored = world.storage.builds.create(demo, theirs, load(steps("one"), IrSettings()).jobs)
    build = BuildPath(ada, f"{published.path}/builds/{stored.number}")
    keep(build, 0, {"a": b"theirs"})
    end = BuildState.FAILED if of == "failed" else BuildState.PASSED
    world.storage.builds.move(stored.id, stored.state, end)
    if of == "pull_request":
        connected = world.storage.repositories.connect(ada.org_id, "https://example.org/a/b.git", "a/b", 60)
        origin = NewOrigin(connected.id, OriginEvent.PULL_REQUEST, "refs/heads/main", pull_request=1)
        world.storage.build_origins.record(build.stored.id, origin, reports=False)
    assert file(world.anonymous, published, "a").content == b"ours"
    assert file(ada.client, published, "a").content == (b"theirs" if of == "pull_request" else b"ours")


def looked_at(world: World, build: BuildPath, path: str) -> str:
    """Return the address of a page for an hour, without its path."""
    (artifact,) = world.storage.artifacts.at(build.stored.id, path)
    below = build.path.removeprefix("/api/v0/organizations")
    led = Browser.of(build.account).get(f"{below}/artifacts/{artifact.uuid}/look")
    assert led.status_code == 303
    return led.headers["Location"].removeprefix("https://ci.example.org").removesuffix(quote(path))


def test_a_site_is_shown_without_an_origin(world: World, pipeline: PipelinePath):
    files = {"index.html": PAGE, "docs/index.html": b"docs", "docs/a b.css": b"a{}", "tool.exe": b"MZ", "x": PAGE}
    above = looked_at(world, passed(pipeline, **files), "index.html")

    shown = world.anonymous.simulate_get(f"{above}index.html")
    assert (shown.status_code, shown.content) == (200, PAGE)
    assert shown.headers["Content-Type"] == "text/html; charset=utf-8"
    policy = shown.headers["Content-Security-Policy"]
    assert policy.split()[0] == "sandbox"
    assert "allow-same-origin" not in policy
    assert shown.headers["X-Content-Type-Options"] == "nosniff"
    assert "Access-Control-Allow-Credentials" not in shown.headers
    assert world.anonymous.simulate_get(f"{above}docs/a b.css").headers["Content-Type"] == "text/css; charset=utf-8"
    # What is not known to be shown is saved, whatever its bytes look like.
    for name in ("tool.exe", "x"):
        saved = world.anonymous.simulate_get(f"{above}{name}")
        assert saved.headers["Content-Type"] == "application/octet-stream"
        assert saved.headers["Content-Disposition"].startswith("attachment")
        assert "sandbox" in saved.headers["Content-Security-Policy"]
    tag = shown.headers["ETag"]
    known = world.anonymous.simulate_get(f"{above}index.html", headers={"If-None-Match": tag})
    assert (known.status_code, known.content) == (304, b"")
    part = world.anonymous.simulate_get(f"{above}index.html", headers={"Range": "bytes=0-7"})
    assert (part.status_code, part.content) == (206, PAGE[:8])


OUTSIDE = ["../../a", "..%2f..%2fetc%2fpasswd", "%2e%2e/b.html", "docs", "/etc/passwd", "a/../b.html"]


@pytest.mark.parametrize("path", OUTSIDE)
def test_no_path_of_a_site_leads_out_of_it(world: World, pipeline: PipelinePath, path: str):
    above = looked_at(world, passed(pipeline, **{"b.html": b"one"}), "b.html")
    assert world.anonymous.simulate_get(f"{above}{path}").status_code == 404


def test_a_member_looks_at_a_private_page_for_an_hour(
    world: World, ada: Account, bob: Account, pipeline: PipelinePath, clock: ManualClock
):
    build = passed(pipeline, **{"site/index.html": PAGE, "site/a.js": b"1"})
    keep(build, 1, {"secret.html": b"of another job"})
    kept = {row["path"]: row["id"] for row in build.get("/artifacts").json["data"]}
    path = build.path.removeprefix("/api/v0/organizations") + f"/artifacts/{kept['site/index.html']}"
    browser = Browser.of(ada)
    assert f"{path}/look" in browser.get(path).text
    assert Browser.of(bob).get(f"{path}/look").status_code == 404

    led = browser.get(f"{path}/look")
    assert led.status_code == 303
    address = led.headers["Location"].removeprefix("https://ci.example.org")
    shown = world.anonymous.simulate_get(address)
    assert (shown.content, shown.headers["Content-Security-Policy"].split()[0]) == (PAGE, "sandbox")
    above, _, _ = address.rpartition("/site/")
    assert world.anonymous.simulate_get(f"{above}/site/a.js").content == b"1"
    folder = world.anonymous.simulate_get(f"{above}/site/")
    assert folder.headers["Location"].endswith("/site/index.html")
    assert world.anonymous.simulate_get(f"{above}/secret.html").status_code == 404
    assert world.anonymous.simulate_get(f"{above[:-1]}/site/index.html").status_code == 404
    forged = quote(build.stored.uuid)
    assert world.anonymous.simulate_get(f"/sites/of/{forged}/site/index.html").status_code == 404
    clock.advance(timedelta(hours=1).total_seconds())
    assert world.anonymous.simulate_get(address).status_code == 404
