"""E-mail: its settings and texts, and what sends it.

The modules are imported on first use, because most commands only read the settings.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from storage import on_first_use

if TYPE_CHECKING:
    from actors.mail.mails import FailedStep, Mails
    from actors.mail.smtp import MailError, send_test_mail, try_mail_server
    from actors.settings import MailSettings
else:
    __getattr__ = on_first_use(__name__)
