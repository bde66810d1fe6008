"""The pages of an organization, and their forms: members, secrets, audit, caches and billing."""

from __future__ import annotations

import json
import re
from datetime import UTC, datetime, time, timedelta
from itertools import groupby
from typing import TYPE_CHECKING

from api.console.account import api_key_of
from api.console.errors import Page
from api.console.operation_form import OperationForm, given, given_patterns, leads_to, shows
from api.console.pages import whole_number
from api.errors.catalog import ApiError
from api.operations import (
    billing,
    caches,
    deploy_keys,
    invites,
    machine_accounts,
    members,
    payments,
    registry_logins,
    secrets,
)
from api.operations.api_tokens import ApiToken
from api.operations.audit import AuditEntry
from api.operations.invites import INVITABLE
from storage import AuditFilter, LedgerSource, Role, SecretScope, UsageTooLong, immutable

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    import falcon

    from api.console.operation_form import Next
    from api.console.site import Site
    from api.openapi.operations import Routes
    from storage import BuildUsage, CacheEntry, DayUsage

_CHANGES = 50
_DAYS = 30
_BUILDS = 20
_DISKS = 50
_JOBS = 50
_ENTRIES = 50
_SOURCES = {
    LedgerSource.PAYMENT_TOPUP: "Payment",
    LedgerSource.COUPON_REDEMPTION: "Coupon",
    LedgerSource.ADMIN_GRANT: "Grant of the host's owner",
    LedgerSource.VM_LEASE_DEBIT: "VM lease debit",
    LedgerSource.REFUND: "Refund",
}
_AMOUNT = re.compile(r"([0-9]{1,9})(?:[.,]([0-9]{2}))?", re.ASCII)


class OrganizationSettingsPage(Page):
    """``/{org}/settings``."""

    def __init__(self, site: Site) -> None:
        self._site = site

    def on_get(self, req: falcon.Request, resp: falcon.Response, org: str) -> None:
        """Show members, machine accounts, invites and secrets to a member; only admins change them."""
        member = self._site.access.member(req, org)
        storage, organization = self._site.storage, member.organization
        self._site.pages.show(
            req,
            resp,
            "organization/settings",
            organization=organization,
            admin=member.role.covers(Role.ADMIN),
            me=self._site.access.caller(req).user,
            members=storage.members.all(organization.id),
            machines=[
                (each, self._keys(each.id, member.role)) for each in storage.machine_accounts.all(organization.id)
            ],
            invites=storage.invites.pending(organization.id),
            secrets=storage.secrets.names(SecretScope(organization.id)),
            logins=storage.registry_logins.of_organization(organization.id),
            deploy_key=storage.organization_keys.of(organization.id),
            roles=list(Role),
            invitable=INVITABLE,
            form_token=self._site.form_token(req),
        )

    def _keys(self, machine_id: int, role: Role) -> Sequence[ApiToken]:
        """Return the API keys of a machine account, for an admin alone."""
        if not role.covers(Role.ADMIN):
            return ()
        storage = self._site.storage
        return [ApiToken.of(storage, each) for each in storage.tokens.api_keys(machine_id)]


class AuditPage(Page):
    """``/{org}/audit``."""

    def __init__(self, site: Site) -> None:
        self._site = site

    def on_get(self, req: falcon.Request, resp: falcon.Response, org: str) -> None:
        """Show a page of changes before the entry ``before``, to an admin."""
        organization = self._site.access.member(req, org, Role.ADMIN).organization
        wanted = AuditFilter(organization=organization.slug)
        page = self._site.storage.audit.page(_CHANGES, whole_number(req.get_param("before")), wanted)
        self._site.pages.show(
            req,
            resp,
            "organization/audit",
            organization=organization,
            entries=[AuditEntry.of(entry) for entry in page.rows],
            more=page.next_key,
        )


@immutable
class PipelineCache:
    """The cached disks of a pipeline, the one that was used last first."""

    pipeline: str
    entries: Sequence[CacheEntry]

    @property
    def bytes(self) -> int:
        """The size of the measured disks."""
        return sum(each.bytes or 0 for each in self.entries)

    @property
    def hits(self) -> int:
        """The jobs that they saved."""
        return sum(each.hits for each in self.entries)


class CachesPage(Page):
    """``/{org}/caches``."""

    def __init__(self, site: Site) -> None:
        self._site = site

    def on_get(self, req: falcon.Request, resp: falcon.Response, org: str) -> None:
        """Show the cached disks to a member; only admins remove them."""
        member = self._site.access.member(req, org)
        found = self._site.storage.cache.entries(member.organization.slug)
        newest = sorted(found, key=lambda each: (each.pipeline_slug, -each.last_used_at.timestamp()))
        self._site.pages.show(
            req,
            resp,
            "organization/caches",
            organization=member.organization,
            admin=member.role.covers(Role.ADMIN),
            caches=[
                PipelineCache(slug, tuple(each)) for slug, each in groupby(newest, lambda each: each.pipeline_slug)
            ],
            form_token=self._site.form_token(req),
        )


class BillingPage(Page):
    """``/{org}/billing``."""

    def __init__(self, site: Site) -> None:
        self._site, payments = site, site.later.payments
        self._currency = None if payments is None else payments.settings.currency.upper()

    def on_get(self, req: falcon.Request, resp: falcon.Response, org: str) -> None:
        """Show the balance, the last thirty days, and a page of the ledger before the entry ``before``."""
        member = self._site.access.member(req, org)
        storage, organization = self._site.storage, member.organization
        now = self._site.clock.now()
        entries = storage.ledger.page(organization.id, _ENTRIES, whole_number(req.get_param("before")))
        days = storage.usage.series(organization.id, now - timedelta(days=_DAYS), now)
        self._site.pages.show(
            req,
            resp,
            "organization/billing",
            organization=organization,
            admin=member.role.covers(Role.ADMIN),
            balance=storage.ledger.balance(organization.id),
            entries=entries.rows,
            more=entries.next_key,
            builds=self._breakdown(organization.id, now),
            disks=storage.kept_disks.of_organization(organization.id)[:_DISKS],
            most_jobs=_JOBS,
            spent=sum(day.usage.total_cents for day in days),
            days=_DAYS,
            plot=_plot(days, self._site.currency),
            sources=_SOURCES,
            currency=self._currency,
            unit=self._site.currency,
            form_token=self._site.form_token(req),
        )

    def _breakdown(self, organization_id: int, now: datetime) -> Sequence[BuildUsage]:
        """Return the builds of the last day with leases; none if they are too many to list."""
        try:
            return self._site.storage.usage.breakdown(organization_id, now - timedelta(days=1), now)[:_BUILDS]
        except UsageTooLong:
            return ()


def _plot(days: Sequence[DayUsage], currency: str) -> str:
    """Return the cost of each day as JSON for the script of plots."""
    return json.dumps(
        {
            "time": True,
            "x": [int(datetime.combine(day.date, time(), UTC).timestamp()) for day in days],
            "series": [{"label": "Cost", "unit": currency, "values": [day.usage.total_cents / 100 for day in days]}],
        }
    )


class CheckoutEndPage(Page):
    """``/billing/paid`` and ``/billing/canceled``, to which the payment provider sends a browser back.

    They know nothing of the payment, so that nobody learns or fakes anything with their addresses.
    """

    def __init__(self, site: Site) -> None:
        self._site = site

    def on_get_paid(self, req: falcon.Request, resp: falcon.Response) -> None:
        """Thank for a payment."""
        self._show(req, resp, "organization/paid")

    def on_get_canceled(self, req: falcon.Request, resp: falcon.Response) -> None:
        """Say that nothing was paid."""
        self._show(req, resp, "organization/not_paid")

    def _show(self, req: falcon.Request, resp: falcon.Response, template: str) -> None:
        self._site.cookies.caller(req)
        self._site.pages.show(req, resp, template)


def checkout_of(fields: Mapping[str, str]) -> dict[str, int]:
    """Return the body of ``createCheckout`` for its form. Raises ApiError ``invalid_amount``."""
    amount = _AMOUNT.fullmatch(fields.get("amount", "").strip())
    if amount is None:
        raise ApiError("invalid_amount", "the amount must be like 25 or 25.50")
    return {"amount_cents": int(amount[1]) * 100 + int(amount[2] or 0)}


def add_organization_pages(
    routes: Routes,
    site: Site,
    url: str,
) -> None:
    """Route the pages of members, machine accounts, invites, secrets, audit, caches and billing."""
    routes.add_page("/{org}/settings", OrganizationSettingsPage(site))
    back = _back_to("settings")
    routes.add_page(
        "/{org}/members/{user_id}/role",
        OperationForm(site, members.update_member, back, given(members.UpdateMemberRoleRequest)),
    )
    routes.add_page("/{org}/members/{user_id}/remove", OperationForm(site, members.remove_member, back))
    _add_machine_accounts(routes, site)
    shown = shows(site, "organization/invited", url=url)
    form = OperationForm(site, invites.create_invite, shown, given(invites.CreateInviteRequest))
    routes.add_page("/{org}/invites", form)
    routes.add_page("/{org}/invites/{id}/revoke", OperationForm(site, invites.revoke_invite, back))
    document = given_patterns(secrets.SetSecretRequest)
    form = OperationForm(site, secrets.set_organization_secret, back, document, in_path=("name",))
    routes.add_page("/{org}/secrets", form)
    document = given_patterns(secrets.LimitSecretRequest)
    form = OperationForm(site, secrets.limit_organization_secret, back, document, in_path=("name",))
    routes.add_page("/{org}/secrets/limits", form)
    routes.add_page("/{org}/secrets/{name}/delete", OperationForm(site, secrets.delete_organization_secret, back))
    routes.add_page("/{org}/deploy-key/rotate", OperationForm(site, deploy_keys.rotate_deploy_key, back))
    login = given(registry_logins.SetRegistryLoginRequest)
    form = OperationForm(site, registry_logins.set_registry_login, back, login, in_path=("host",))
    routes.add_page("/{org}/registry-logins", form)
    form = OperationForm(site, registry_logins.delete_registry_login, back)
    routes.add_page("/{org}/registry-logins/{host}/delete", form)

    routes.add_page("/{org}/audit", AuditPage(site))
    routes.add_page("/{org}/caches", CachesPage(site))
    form = OperationForm(site, caches.clear_pipeline_cache, _back_to("caches"))
    routes.add_page("/{org}/caches/{pipeline}/clear", form)

    routes.add_page("/{org}/billing", BillingPage(site))
    form = OperationForm(site, billing.redeem_coupon, _back_to("billing"), given(billing.RedeemCouponRequest))
    routes.add_page("/{org}/billing/coupons", form)
    form = OperationForm(site, payments.create_checkout, shows(site, "organization/checkout"), checkout_of)
    routes.add_page("/{org}/billing/checkout", form)
    end = CheckoutEndPage(site)
    routes.add_page("/billing/paid", end, "paid")
    routes.add_page("/billing/canceled", end, "canceled")


def _add_machine_accounts(routes: Routes, site: Site) -> None:
    path, back = "/{org}/machine-accounts", _back_to("settings#machine-accounts")
    document = given(machine_accounts.CreateMachineAccountRequest)
    routes.add_page(path, OperationForm(site, machine_accounts.create_machine_account, back, document))
    routes.add_page(f"{path}/{{machine}}/remove", OperationForm(site, machine_accounts.delete_machine_account, back))
    made = shows(site, "api_key")
    form = OperationForm(site, machine_accounts.create_machine_key, made, api_key_of, in_path=("machine",))
    routes.add_page(f"{path}/keys", form)
    revoked = OperationForm(site, machine_accounts.revoke_machine_key, back)
    routes.add_page(f"{path}/{{machine}}/api-keys/{{id}}/revoke", revoked)


def _back_to(page: str) -> Next:
    """Return what leads to a page of the organization."""
    return leads_to(lambda params, _: f"{params['org']}/{page}")
