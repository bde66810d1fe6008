"""The mail that the caller wants."""

from __future__ import annotations

from api.operations.operation import GET, PATCH, Call, operation
from api.operations.things import USER, ThisUser
from storage import immutable

_MAIL = f"{USER}/mail"


@immutable
class MailSettings:
    """The mail of an account: ``builds`` tells of builds, if their pipelines have e-mail notifications."""

    builds: bool


@immutable
class UpdateMailSettingsRequest:
    """The body of ``PATCH /api/v0/user/mail``."""

    builds: bool


@operation("getMailSettings", GET, _MAIL, "The settings.")
def get_mail_settings(call: Call, user: ThisUser) -> MailSettings:
    """Get the mail that the service sends to the caller's address."""
    return MailSettings(builds=not call.storage.mail_opt_outs.has(user.email))


@operation("updateMailSettings", PATCH, _MAIL, "The settings as they are now.")
def update_mail_settings(call: Call, user: ThisUser, body: UpdateMailSettingsRequest) -> MailSettings:
    """Want mail about builds, or no more of it."""
    call.storage.mail_opt_outs.set(user.email, out=not body.builds)
    return MailSettings(body.builds)
