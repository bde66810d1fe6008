"""VMs leased to jobs: the providers that make them, and the work in them over SSH.

Modules that speak SSH or make VMs are imported on first use, because most commands need neither (engine.md, "Leases").
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from storage import on_first_use

if TYPE_CHECKING:
    from actors.vms.description import Enforcement, HostSize, ProviderDescription
    from actors.vms.guest import in_job, in_workspace, script
    from actors.vms.guest.command import (
        CommandLost,
        CommandNotStarted,
        CommandOutput,
        CommandSpec,
        CommandState,
        Exited,
        PortClosed,
        Told,
        VmOutput,
        follow,
        inspect,
        open_port,
        start,
        terminate,
        told,
        told_path,
    )
    from actors.vms.guest.file_download import (
        DownloadedFile,
        InvalidDownload,
        ListedFile,
        TarReader,
        download_files,
        list_below,
        list_files,
    )
    from actors.vms.guest.kept_folder import FolderNotKept, fingerprint_of, lay_folder, pack_folder
    from actors.vms.guest.services import ServiceEnd, ServiceFailed, ServiceSpec, follow_service, start_services
    from actors.vms.guest.shared_workspace import WorkspaceNotShared, lay_workspace, pack_workspace, workspace_hash
    from actors.vms.guest.source_archive import SourceError
    from actors.vms.guest.source_archive import check_bounds as source_check_bounds
    from actors.vms.guest.source_archive import write_manifest as write_source_manifest
    from actors.vms.guest.source_archive import write_manifest_confined as write_source_manifest_confined
    from actors.vms.guest.terminal import (
        MOST_SIZE,
        Screen,
        ScreenPart,
        TerminalSpec,
        open_terminal,
        resize,
        type_in,
    )
    from actors.vms.guest.workspace_update import (
        FilesNotLaid,
        LaidFile,
        change_files,
        lay_files,
        update_workspace,
    )
    from actors.vms.images import (
        ImageError,
        Images,
        ImageStore,
        InsufficientDisk,
        login_of,
        private_name,
        public_name,
        registry_of,
    )
    from actors.vms.images.registry import auth_file, authorization_of
    from actors.vms.incus import IncusProvider
    from actors.vms.incus.fleet import known_size
    from actors.vms.launcher.containers import CONTAINER_VARIABLES
    from actors.vms.provider import (
        USUAL_WEIGHT,
        ImageNotFound,
        Provider,
        ProviderAway,
        SnapshotNotFound,
        SshEndpoint,
        SshSocket,
        VmDisk,
        VmError,
        VmLost,
        VmSpec,
        VmUse,
    )
    from actors.vms.providers import Providers
    from actors.vms.qemu import QemuProvider
    from actors.vms.sandbox.provider import SandboxProvider
    from actors.vms.settings import ImageSettings, IncusSettings, NetworkSettings, QemuSettings, SandboxSettings
    from actors.vms.ssh import (
        CommandTimeout,
        Completed,
        Connection,
        ConnectionLost,
        FileBytes,
        HostKeyMismatch,
        InteractiveSession,
        OutputTooLong,
        PortSocket,
        Pty,
        Stream,
    )
else:
    __getattr__ = on_first_use(__name__)
