"""Names of images, and the images that jobs get for them."""

from __future__ import annotations

import io
from uuid import uuid4

import pytest
from hypothesis import given
from hypothesis import strategies as st

from actors.vms import ImageNotFound, Images, ImageStore, VmError
from actors.vms.images import check_name, login_of, private_name, public_name, resolve
from actors.vms.images.image import folder_of, name_of
from tests.actors.vms.images.trees import root_tar


class TestNames:
    @pytest.mark.parametrize("name", ["debian:12", "a", "team/base", "ghcr.io/team/base_2:v1.0-RC", "0"])
    def test_names_are_as_in_registries(self, name: str):
        check_name(name)

    @pytest.mark.parametrize(
        "name", ["", "Debian", "-x", ".x", "a/../b", "/etc", "a//b", "a:b:c", "a:", "a b", "é", "a\n", "a" * 201]
    )
    def test_all_else_is_refused(self, store: ImageStore, name: str):
        with pytest.raises(VmError, match="is not a valid image name"):
            check_name(name)
        with pytest.raises(VmError):
            store.import_(name, io.BytesIO())
        with pytest.raises(ImageNotFound):
            store.path(name)

    @given(st.from_regex(r"[a-z0-9][a-z0-9._-]{0,5}(/[a-z0-9][a-z0-9._-]{0,5})?(:[a-z0-9]{1,5})?", fullmatch=True))
    def test_every_name_has_a_folder_of_its_own(self, name: str):
        check_name(name)
        assert name_of(folder_of(name)) == name
        assert not set(folder_of(name)) & set("/:,\\")

    @pytest.mark.parametrize(
        ("named", "gets"),
        [
            (None, "debian:12"),
            ("own", "own"),
            ("docker.io/library/own:latest", "own:latest"),
            ("mapped", "own"),
            ("docker.io/mapped:latest", "own"),
            ("to/default", "debian:12"),
            ("to/hub", "alpine:3"),
            ("unknown", "unknown:latest"),
            ("index.docker.io/library/alpine:3", "alpine:3"),
            ("ghcr.io/team/base", "ghcr.io/team/base:latest"),
            ("127.0.0.1:5000/base:1", "127.0.0.1:5000/base:1"),
            (f"alpine:3@sha256:{'a' * 64}", f"alpine@sha256:{'a' * 64}"),
            ("No Name", "No Name"),
        ],
    )
    def test_a_job_gets_the_image_it_names_or_its_substitute(self, named: str | None, gets: str):
        mapping = {
            "mapped:latest": "own", "mapped": "own", "own": "other", "to/default": "default",
            "to/hub": "docker.io/library/alpine:3",
        }  # fmt: skip
        assert resolve(named, ["debian:12", "own", "own:latest"], "debian:12", mapping) == gets

    @pytest.mark.parametrize("name", ["ubuntu:24.04", "docker.io/library/ubuntu:24.04"])
    def test_the_default_stands_in_for_the_image_that_the_dsl_stamps(self, name: str):
        assert resolve(name, ["debian:12"], "debian:12", {}) == "debian:12"
        assert resolve(name, ["debian:12", "ubuntu:24.04"], "debian:12", {}) == "ubuntu:24.04"
        assert resolve("ubuntu:22.04", ["debian:12"], "debian:12", {}) == "ubuntu:22.04"

    def test_an_image_of_a_login_is_for_nobody_else(self, store: ImageStore):
        """Not by its own name either; one that is there for everybody comes before it."""
        login, image = str(uuid4()), "ghcr.io/acme/private:1"
        own = private_name(login, image)
        check_name(own)
        assert (login_of(own), public_name(own), name_of(folder_of(own))) == (login, image, own)
        store.import_(own, io.BytesIO(root_tar()))
        images = Images(store, "debian:12", {})
        assert images.resolve(image, lambda: {"ghcr.io": login}) == own
        assert images.missing([image], lambda: {"ghcr.io": login}) == {}
        for logins in ({}, {"docker.io": login}, {"ghcr.io": str(uuid4())}):
            assert images.resolve(image, lambda logins=logins: logins) != own
            assert images.missing([image], lambda logins=logins: logins) != {}
        for named in (own, f"~{own}", f"docker://{own}", own[1:]):
            assert images.resolve(named) not in store.names()
            assert images.resolve(named, lambda: {"ghcr.io": login}) not in store.names()
        with pytest.raises(ImageNotFound) as refused:
            images.path("gone:1")
        assert "private" not in str(refused.value)
        assert not images.is_substitute(image, own)
        store.import_(image, io.BytesIO(root_tar()))
        assert images.resolve(image, lambda: {"ghcr.io": login}) == image

    def test_an_image_that_is_there_is_never_mapped(self, store: ImageStore):
        images = Images(store, "debian:12", {"ubuntu:24.04": "debian:12"})
        assert images.resolve("ubuntu:24.04") == "debian:12"
        store.import_("ubuntu:24.04", io.BytesIO(root_tar()))
        assert images.resolve("ubuntu:24.04") == "ubuntu:24.04"
        assert images.path("ubuntu:24.04") == store.path("ubuntu:24.04")
