"""The configuration section of Bitbucket, with its defaults."""

from __future__ import annotations

from storage import immutable, is_secure_address, setting


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
