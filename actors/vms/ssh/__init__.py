"""SSH to a VM: commands, interactive sessions and port forwards (engine.md, "Leases").

All is imported on first use, because most commands never connect to a VM.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from storage import on_first_use

if TYPE_CHECKING:
    from actors.vms.ssh.connection import Connection, HostKeyMismatch
    from actors.vms.ssh.errors import CommandTimeout, ConnectionLost, OutputTooLong
    from actors.vms.ssh.files import FileBytes
    from actors.vms.ssh.forwarding import PortSocket
    from actors.vms.ssh.stream import Completed, InteractiveSession, Pty, Stream
else:
    __getattr__ = on_first_use(__name__)

    # Paramiko takes this for a missing package that it can do without: only configuration files of OpenSSH need it. To
    # import it takes longer than to import paramiko.
    sys.modules.setdefault("invoke", None)
