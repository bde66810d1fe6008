"""People with passkeys, for tests of the API."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from falcon import testing

from storage import AuditEntry
from tests.api.world import Account, World
from tests.authenticator import Authenticator

AUTH = "/api/v0/auth"
SIGN_UP = f"{AUTH}/passkey/signup"
LOGIN = f"{AUTH}/passkey/login"
REGISTER = f"{AUTH}/passkey/register"
RECOVER = f"{AUTH}/recover"


def code(answered: testing.Result) -> tuple[int, str]:
    """Return the status and the code of a refusal."""
    return answered.status_code, answered.json["error"]["code"]


@dataclass
class Browser:
    """A browser without a session, unless ``client`` has one."""

    world: World
    client: testing.TestClient

    @classmethod
    def of(cls, world: World, client: testing.TestClient | None = None) -> Browser:
        return cls(world, client or world.anonymous)

    def post(self, path: str, **body: Any) -> testing.Result:
        return self.client.simulate_post(path, json=body)

    def begun(self, path: str, **body: Any) -> dict[str, Any]:
        """Ask for options, which must be given."""
        answered = self.post(f"{path}/options", **body)
        assert answered.status_code == 200, answered.text
        begun: dict[str, Any] = answered.json
        return begun

    def sign_up(self, token: str, authenticator: Authenticator, **body: Any) -> testing.Result:
        """Sign up with the token of a link."""
        return self._created(SIGN_UP, authenticator, {"verification_token": token, **body})

    def recover(self, token: str, authenticator: Authenticator) -> testing.Result:
        """Recover an account with the token of a magic link."""
        return self._created(RECOVER, authenticator, {"magic_link_token": token})

    def register(self, authenticator: Authenticator, **body: Any) -> testing.Result:
        """Add a passkey to the account that is signed in."""
        return self._created(REGISTER, authenticator, body)

    def login(self, authenticator: Authenticator, **given: Any) -> testing.Result:
        """Sign in with a passkey, whose answer may have parts given."""
        begun = self.begun(LOGIN)
        assertion = authenticator.get(begun["options"], **given)
        return self.post(f"{LOGIN}/finalize", challenge_id=begun["challenge_id"], assertion=assertion)

    def prepared(self, path: str, authenticator: Authenticator | None = None, **body: Any) -> dict[str, Any]:
        """Make a passkey; return the body that finalizes it."""
        begun = self.begun(path, **body)
        attestation = (authenticator or Authenticator()).create(begun["options"])
        return {**body, "challenge_id": begun["challenge_id"], "attestation": attestation}

    def _created(self, path: str, authenticator: Authenticator, body: dict[str, Any]) -> testing.Result:
        return self.post(f"{path}/finalize", **self.prepared(path, authenticator, **body))


def with_passkey(account: Account, authenticator: Authenticator | None = None) -> Authenticator:
    """Add a passkey to an account; return its authenticator."""
    authenticator = authenticator or Authenticator()
    answered = Browser.of(account.world, account.signed_in()).register(authenticator)
    assert answered.status_code == 200, answered.text
    return authenticator


def audited(world: World) -> list[AuditEntry]:
    """Return the entries of the audit, newest first."""
    return sorted(world.storage.audit.page(100, None).rows, key=lambda entry: -entry.id)


def bearing(world: World, token: str) -> testing.TestClient:
    """Return a client with a token."""
    return testing.TestClient(world.app, headers={"Authorization": f"Bearer {token}"})
