"""Envelopes that are rendered once for builds of the same archive."""

from __future__ import annotations

import json
import shutil
from datetime import timedelta

from actors.parts import VmParts
from actors.render.recording import RenderRecorder, cache_name
from actors.settings import LiveSettings
from storage import Build, NewBuild, Rendered
from tests.actors.conftest import Host, add_image
from tests.e2e.pipelines import one

ENVELOPE = {
    "schema_version": "1",
    "pipelines": [
        {"slug": "demo", "name": "Demo", "allow_manual": True, "triggers": [], "definition": json.loads(one("true"))}
    ],
}


def begun(host: Host) -> Build:
    return host.storage.renders.begin(host.pipeline, NewBuild("main", "c0ffee", source_archive=b"archive"), None)


def test_a_plan_is_rendered_anew_in_an_image_that_was_replaced(host: Host):
    """The image has the Python that runs the pipeline files."""
    storage, images = host.storage, host.images
    recorder = RenderRecorder(
        VmParts(
            storage=storage,
            clock=host.clock,
            live_settings=LiveSettings(host.settings),
            providers=host.providers,
            images=images,
        )
    )
    build = begun(host)
    archive = storage.sources.path(build.uuid)
    name = cache_name(build.organization_slug, build.pipeline_slug, archive, images, "debian:12")
    until = host.clock.now() + timedelta(hours=1)
    storage.renders.keep(name, Rendered(json.dumps(ENVELOPE), b""), until)
    assert recorder.plan_from_cache(build)
    assert [job.command for job in storage.jobs.of_build(build.id)] == ["true"]

    folder = images.store.path("debian:12").parent
    shutil.rmtree(folder)
    assert not recorder.plan_from_cache(begun(host))
    add_image(folder.parent, "debian:12", {})
    assert not recorder.plan_from_cache(begun(host))
