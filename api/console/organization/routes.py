"""The paths of the pages of an organization, and of their forms."""

from __future__ import annotations

from typing import TYPE_CHECKING

from api.console.operation_form import OperationForm, given, leads_to, shows
from api.console.organization.audit import AuditPage
from api.console.organization.billing import BillingPage
from api.console.organization.caches import CachesPage
from api.console.organization.checkout import CheckoutEndPage, checkout_of
from api.console.organization.people import OrganizationSettingsPage
from api.operations import billing, caches, invites, members, payments, secrets

if TYPE_CHECKING:
    from api.console.operation_form import Next
    from api.console.site import Site
    from api.openapi.operations import Routes


def add_organization_pages(
    routes: Routes,
    site: Site,
    url: str,
) -> None:
    """Route the pages of members, invites, secrets, audit, caches and billing."""
    routes.add_page("/{org}/settings", OrganizationSettingsPage(site))
    back = _back_to("settings")
    routes.add_page("/{org}/members/{user_id}/role", OperationForm(site, members.update_member, back, given("role")))
    routes.add_page("/{org}/members/{user_id}/remove", OperationForm(site, members.remove_member, back))
    shown = shows(site, "organization/invited", url=url)
    form = OperationForm(site, invites.create_invite, shown, given("email", "role"))
    routes.add_page("/{org}/invites", form)
    routes.add_page("/{org}/invites/{id}/revoke", OperationForm(site, invites.revoke_invite, back))
    form = OperationForm(site, secrets.set_organization_secret, back, given("value"), in_path=("name",))
    routes.add_page("/{org}/secrets", form)
    routes.add_page("/{org}/secrets/{name}/delete", OperationForm(site, secrets.delete_organization_secret, back))

    routes.add_page("/{org}/audit", AuditPage(site))
    routes.add_page("/{org}/caches", CachesPage(site))
    form = OperationForm(site, caches.clear_pipeline_cache, _back_to("caches"))
    routes.add_page("/{org}/caches/{pipeline}/clear", form)

    routes.add_page("/{org}/billing", BillingPage(site))
    form = OperationForm(site, billing.redeem_coupon, _back_to("billing"), given("code"))
    routes.add_page("/{org}/billing/coupons", form)
    form = OperationForm(site, payments.create_checkout, shows(site, "organization/checkout"), checkout_of)
    routes.add_page("/{org}/billing/checkout", form)
    end = CheckoutEndPage(site)
    routes.add_page("/billing/paid", end, "paid")
    routes.add_page("/billing/canceled", end, "canceled")


def _back_to(page: str) -> Next:
    """Return what leads to a page of the organization."""
    return leads_to(lambda params, _: f"{params['org']}/{page}")
