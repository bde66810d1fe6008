"""The provider of VMs as instances of an Incus or LXD server or cluster."""

from __future__ import annotations

from typing import TYPE_CHECKING

from storage import on_first_use

if TYPE_CHECKING:
    from actors.vms.incus.aliases import ROOT, EngineAliases
    from actors.vms.incus.engine import Access, Engine, access_of
    from actors.vms.incus.engine_setup import (
        EngineSetup,
        JoinToken,
        SetupStep,
        fingerprint_of,
        new_certificate,
        server_certificate,
    )
    from actors.vms.incus.fleet import Member, known_size, member_urls, members
    from actors.vms.incus.inspection import MemberContents, MemberReport, contents, inspect_member, member_addresses
    from actors.vms.incus.machines import disk_program, efi_stub, machine_kernel
    from actors.vms.incus.provider import IncusProvider
    from actors.vms.incus.refusals import EngineAway, EngineError, NotFound, NotTrusted
else:
    __getattr__ = on_first_use(__name__)
