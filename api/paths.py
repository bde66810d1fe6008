"""The paths of the API, by subject: which resource answers each."""

from __future__ import annotations

from typing import TYPE_CHECKING

from api.openapi.docs import ReferenceResource, reference_files
from api.operations import (
    api_tokens,
    artifacts,
    audit,
    billing,
    bitbucket,
    builds,
    caches,
    github_installations,
    identities,
    invites,
    jobs,
    mail_settings,
    members,
    notifications,
    organizations,
    passkeys,
    payments,
    pipelines,
    repo_deliveries,
    repositories,
    schedules,
    secrets,
    sessions,
    usage,
    user,
)
from api.resources.meta import HealthResource, PingResource
from api.resources.sign_in.passkey_login import PasskeyLoginResource
from api.resources.sign_in.passkey_sign_up import PasskeySignUpResource
from api.resources.sign_in.recovery import RecoveryResource

if TYPE_CHECKING:
    from api.doors.http import HttpDoor
    from api.errors.pages import ErrorPagesResource
    from api.logs.log import JobLogResource, RenderLogResource
    from api.middleware.rate_limits import RateLimits
    from api.openapi.document import OpenApiResource
    from api.openapi.operations import Routes
    from api.resources.build_status import BadgeResource, CctrayResource
    from api.resources.internal_source import InternalSourceResource
    from api.resources.logout import LogoutResource
    from api.resources.metrics import MetricsResource
    from api.resources.payment_events import PaymentEventsResource
    from api.resources.sign_in.cli_login import CliLoginResource
    from api.resources.sign_in.identity_providers import IdentityProvidersResource
    from api.resources.webhooks import WebhookResource
    from api.sign_in.mail import SignInMail
    from api.sign_in.relying_party import RelyingParty
    from api.sign_in.sessions import SessionStart
    from storage import SignUpPolicy, Storage

_V0 = "/api/v0"
_V2 = "/api/v2"
_PIPELINES = f"{_V0}/organizations/{{org}}/pipelines"
_BUILDS = f"{_PIPELINES}/{{pipeline}}/builds"
_JOBS = f"{_BUILDS}/{{number}}/jobs"


def add_meta(routes: Routes, health: HealthResource, metrics: MetricsResource) -> None:
    """Route health and metrics."""
    routes.add("/healthz", health)
    routes.add("/metrics", metrics)
    routes.add(f"{_V0}/ping", PingResource())


def add_api_tokens(routes: Routes, door: HttpDoor) -> None:
    """Route the API keys of the caller."""
    door.add(routes, api_tokens.list_api_tokens, api_tokens.create_api_token, api_tokens.revoke_api_token)


def add_sessions(routes: Routes, door: HttpDoor, logout: LogoutResource) -> None:
    """Route the sessions of the caller."""
    routes.add(f"{_V0}/auth/logout", logout)
    door.add(routes, sessions.list_sessions, sessions.end_session)


def add_user(routes: Routes, door: HttpDoor) -> None:
    """Route the caller's own account."""
    door.add(
        routes,
        user.get_current_user,
        user.update_current_user,
        user.delete_current_user,
        mail_settings.get_mail_settings,
        mail_settings.update_mail_settings,
    )


def add_cli_login(routes: Routes, cli_login: CliLoginResource) -> None:
    """Route the login of command lines, in both versions."""
    for action in ("transfer", "claim", "code", "redeem"):
        routes.add(f"{_V0}/auth/cli/{action}", cli_login, action)
        routes.add(f"{_V2}/auth/cli/{action}", cli_login, f"{action}_v2")


def add_passkeys(routes: Routes, door: HttpDoor) -> None:
    """Route the passkeys of the caller."""
    door.add(routes, passkeys.begin_passkey, passkeys.finish_passkey, passkeys.list_passkeys, passkeys.delete_passkey)


def add_ways_in(
    routes: Routes,
    storage: Storage,
    policy: SignUpPolicy,
    party: RelyingParty,
    mail: SignInMail,
    rates: RateLimits,
    start: SessionStart,
) -> None:
    """Route the ways in that need no session: passkeys, sign-up and recovery."""
    login = PasskeyLoginResource(storage, party, start, rates)
    sign_up = PasskeySignUpResource(storage, party, policy, mail, start, rates)
    recovery = RecoveryResource(storage, party, mail, start, rates)
    for action in ("options", "finalize"):
        routes.add(f"{_V0}/auth/passkey/login/{action}", login, action)
    for action in ("begin", "options", "finalize"):
        routes.add(f"{_V0}/auth/passkey/signup/{action}", sign_up, action)
        routes.add(f"{_V0}/auth/recover/{action}", recovery, action)


def add_identity_providers(routes: Routes, door: HttpDoor, providers: IdentityProvidersResource) -> None:
    """Route the sign-in with identity providers."""
    routes.add(f"{_V0}/auth/providers", providers, "list")
    routes.add(f"{_V0}/auth/google", providers, "google")
    routes.add(f"{_V2}/auth/google", providers, "google_v2")
    routes.add(f"{_V0}/auth/github", providers, "github")
    routes.add(f"{_V0}/auth/oidc/{{provider}}", providers, "oidc")
    door.add(routes, identities.list_identities, identities.delete_identity)


def add_organizations(routes: Routes, door: HttpDoor) -> None:
    """Route organizations, their members, invites and audit."""
    door.add(
        routes,
        organizations.list_organizations,
        organizations.create_organization,
        organizations.get_organization,
        members.list_members,
        members.update_member,
        members.remove_member,
        invites.list_invites,
        invites.create_invite,
        invites.revoke_invite,
        invites.accept_invite,
        audit.list_audit_entries,
    )


def add_builds(routes: Routes, door: HttpDoor, badge: BadgeResource, cctray: CctrayResource) -> None:
    """Route builds, badges and the feed of states."""
    door.add(
        routes,
        builds.create_build_by_source,
        builds.list_builds,
        builds.create_build,
        builds.get_build,
        builds.cancel_build,
        builds.approve_build,
        builds.rebuild_build,
        builds.retry_build,
        builds.get_log_token,
    )
    routes.add("/badges/{org}/{pipeline}.svg", badge)
    routes.add("/cc.xml", cctray)


def add_sources(routes: Routes, internal: InternalSourceResource, webhooks: WebhookResource) -> None:
    """Route what brings sources: archives for VMs, and the deliveries of hosts."""
    routes.add(f"{_V0}/internal/builds/{{build_id}}/source.tar.gz", internal)
    routes.add("/webhooks/{provider}", webhooks)


def add_pipelines(routes: Routes, door: HttpDoor) -> None:
    """Route pipelines, their schedules, notifications and caches."""
    door.add(
        routes,
        pipelines.list_pipelines,
        pipelines.create_pipeline,
        pipelines.get_pipeline,
        pipelines.update_pipeline,
        pipelines.delete_pipeline,
        schedules.list_schedules,
        schedules.create_schedule,
        schedules.update_schedule,
        schedules.delete_schedule,
        caches.clear_pipeline_cache,
        caches.list_caches,
        notifications.list_notifications,
        notifications.create_notification,
        notifications.update_notification,
        notifications.delete_notification,
        notifications.test_notification,
        notifications.rotate_notification_secret,
        notifications.list_notification_deliveries,
        notifications.redeliver_notification,
    )


def add_jobs(routes: Routes, door: HttpDoor) -> None:
    """Route the jobs of builds."""
    door.add(routes, jobs.list_jobs, jobs.get_job)


def add_logs(routes: Routes, logs: JobLogResource, render_logs: RenderLogResource) -> None:
    """Route the logs of jobs and renders."""
    routes.add(f"{_JOBS}/{{job_id}}/log", logs)
    routes.add(f"{_BUILDS}/{{number}}/render-log", render_logs)


def add_artifacts(routes: Routes, door: HttpDoor) -> None:
    """Route artifacts."""
    door.add(routes, artifacts.list_build_artifacts, artifacts.download_artifact, artifacts.list_job_artifacts)


def add_secrets(routes: Routes, door: HttpDoor) -> None:
    """Route the secrets of organizations and pipelines."""
    door.add(
        routes,
        secrets.list_organization_secrets,
        secrets.set_organization_secret,
        secrets.delete_organization_secret,
        secrets.list_pipeline_secrets,
        secrets.set_pipeline_secret,
        secrets.delete_pipeline_secret,
    )


def add_billing(routes: Routes, door: HttpDoor) -> None:
    """Route balances, usage and coupons."""
    door.add(
        routes,
        billing.get_balance,
        billing.list_transactions,
        usage.get_usage,
        usage.list_usage_by_day,
        usage.list_usage_by_build,
        billing.redeem_coupon,
    )


def add_payments(routes: Routes, door: HttpDoor, events: PaymentEventsResource) -> None:
    """Route payments."""
    door.add(routes, payments.create_checkout)
    routes.add(f"{_V0}/billing/webhook", events)


def add_source_hosts(routes: Routes, door: HttpDoor) -> None:
    """Route repositories, and the accounts that bring them."""
    door.add(
        routes,
        repositories.list_org_repos,
        repositories.connect_repo,
        repositories.get_repo,
        repositories.update_repo,
        repositories.disconnect_repo,
        repositories.check_repo,
        repositories.make_repo_hook,
        repo_deliveries.list_repo_deliveries,
        repo_deliveries.get_repo_delivery,
        repo_deliveries.redeliver_to_repo,
        github_installations.list_installations,
        github_installations.connect_installation,
        github_installations.disconnect_installation,
        github_installations.list_installation_repos,
        github_installations.sync_installation,
        bitbucket.connect_bitbucket,
        bitbucket.get_oauth_url,
        bitbucket.list_workspaces,
        bitbucket.disconnect_workspace,
        bitbucket.list_workspace_repos,
    )


def add_docs(routes: Routes, document: OpenApiResource, error_pages: ErrorPagesResource) -> None:
    """Route the OpenAPI document, the reference and the pages of errors."""
    routes.add(f"{_V0}/openapi.json", document)
    routes.add("/docs", ReferenceResource())
    routes.add_page("/docs/static/{file}", reference_files())
    routes.add("/docs/errors", error_pages, "list")
    routes.add("/docs/errors/{code}", error_pages)
