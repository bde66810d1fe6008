"""The configuration sections of the GitHub app and of Bitbucket, with their defaults."""

from __future__ import annotations

import os
from pathlib import Path

from storage import immutable, is_secure_address, setting

GITHUB = "github"

PRIVATE_KEY = "github-app.pem"
"""The name of the systemd credential with the app's private key."""


@immutable
class GithubAppSettings:
    """Section ``[github]``: the GitHub app by which pushes and pull requests at GitHub are built.

    `ci-daemon github setup` makes the app and writes this section.
    """

    app_id: str = setting("", "The id of the app; if it is empty, GitHub is not used.")
    private_key: Path | None = setting(
        None,
        f"The file with the app's private key; by default the systemd credential `{PRIVATE_KEY}`.",
        example="/etc/ci-daemon/github-app.pem",
    )
    webhook_secret: str = setting("", "The secret by which GitHub signs its deliveries.", secret=True)
    api_url: str = setting("https://api.github.com", "The address of GitHub's API; of GitHub Enterprise, `…/api/v3`.")
    web_url: str = setting("https://github.com", "The address of GitHub's pages.")
    timeout: float = setting(15.0, "The most seconds to wait for an answer of GitHub.", above=0, at_most=60)

    def __post_init__(self) -> None:
        if self.app_id and not self.app_id.isdecimal():
            raise ValueError(f'app_id must be the number that GitHub shows on the app\'s page, not "{self.app_id}"')
        if self.app_id and not self.webhook_secret:
            raise ValueError("webhook_secret is missing: without it nobody could tell GitHub's deliveries from others")
        for name, value in (("api_url", self.api_url), ("web_url", self.web_url)):
            if not is_secure_address(value):
                raise ValueError(f'{name} must be an https:// address, not "{value}"')

    @property
    def configured(self) -> bool:
        """True if the service is an app at GitHub."""
        return bool(self.app_id)

    def read_private_key(self) -> str:
        """Return the app's private key. Raises OSError."""
        credentials = Path(os.environ.get("CREDENTIALS_DIRECTORY", "/nonexistent"))
        return (self.private_key or credentials / PRIVATE_KEY).read_text()


@immutable
class BitbucketSettings:
    """Section ``[bitbucket]``: the OAuth consumer with which workspaces are connected."""

    client_id: str = setting("", "The consumer's key; if it is empty, no workspace can be connected.")
    client_secret: str = setting("", "The consumer's secret.", secret=True)
    url: str = setting("https://bitbucket.org", "The address of pages and repositories.")
    api_url: str = setting("https://api.bitbucket.org/2.0", "The address of the API.")

    def __post_init__(self) -> None:
        if bool(self.client_id) != bool(self.client_secret):
            raise ValueError("client_id and client_secret must be set together")
        for name in ("url", "api_url"):
            url = getattr(self, name)
            if not is_secure_address(url) or url.endswith("/"):
                what = "an https:// URL, or http:// to this host, without a slash at its end"
                raise ValueError(f'{name} must be {what}, not "{url}"')
