"""The things of paths, for callers that no request through HTTP has."""

from __future__ import annotations

import pytest

from api import ApiError
from api.operations.operation import HostOwner
from api.operations.things import is_member, member_organization, readable_build
from tests.api.world import Account, PipelinePath


def test_a_call_of_nobody_is_not_that_of_the_owner(ada: Account):
    storage = ada.world.storage
    assert not is_member(storage, None, ada.org_id)
    with pytest.raises(ApiError, match="there is no organization"):
        member_organization(storage, None, ada.org)


def test_the_owner_of_the_host_reads_every_build(pipeline: PipelinePath):
    storage, slug = pipeline.account.world.storage, pipeline.path.rpartition("/")[2]
    build = pipeline.build().stored
    assert readable_build(storage, HostOwner("root"), pipeline.account.org, slug, "1") == build
    with pytest.raises(ApiError, match="only public pipelines"):
        readable_build(storage, None, pipeline.account.org, slug, "1")
