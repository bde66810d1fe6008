"""Tar streams of images: what the engine unpacks."""

from __future__ import annotations

import io
import tarfile

from actors.vms import ImageStore
from actors.vms.host import IdMap
from actors.vms.incus.outer_images import PROGRAMS, base_image, tree_tar
from tests.vms.contract.hosts import IMAGE


def test_the_outer_layer_is_the_tree_with_the_launcher_as_init(image_store: ImageStore, idmap: IdMap):
    whole = io.BytesIO(b"".join(base_image(image_store.path(IMAGE), idmap)))
    with tarfile.open(fileobj=whole) as tar:
        names = tar.getnames()
        init = tar.extractfile("rootfs/usr/sbin/init")
        assert init is not None
        assert b"launcher.container_guest" in init.read()
        assert tar.getmember("rootfs/usr/bin/python3").issym()
        assert tar.getmember("rootfs/etc/passwd").uid == 0
    assert names[0] == "metadata.yaml"
    assert f"rootfs{PROGRAMS}/launcher/syscalls.txt" in names
    assert len(names) == len(set(names))


def test_links_in_a_tree_stay_as_they_are(image_store: ImageStore, idmap: IdMap):
    with tree_tar(image_store.path(IMAGE), idmap, "below/") as stream, tarfile.open(fileobj=stream, mode="r|") as tar:
        links = {member.name: member.linkname for member in tar if member.issym()}
    assert links["below/bin"] == "usr/bin"
