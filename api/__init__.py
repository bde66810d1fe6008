"""The HTTP API: falcon resources over the storage and the live service, served by waitress.

The server's modules are imported on first use, because most commands only read the settings.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from storage import on_first_use

if TYPE_CHECKING:
    from api.app import Parts, create_app
    from api.errors.catalog import ApiError, error_catalog
    from api.http.server import CannotListen, Server, check_listen_address
    from api.middleware.access_log import RequestIdFilter
    from api.operations.builds import build_document
    from api.payments.settings import PaymentSettings
    from api.settings import HttpSettings, RateLimitSettings, pages_url
    from api.sign_in.relying_party import RelyingParty
    from api.sign_in.settings import IdentitySettings
else:
    __getattr__ = on_first_use(__name__)
