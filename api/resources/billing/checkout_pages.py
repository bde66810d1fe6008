"""The pages to which the payment provider sends a browser back."""

from __future__ import annotations

from typing import TYPE_CHECKING

from api.http.html_pages import path_to_root, respond_with_page

if TYPE_CHECKING:
    import falcon

__all__ = ["CheckoutPageResource"]


class CheckoutPageResource:
    """One page of plain words; not part of the OpenAPI document.

    It knows nothing of the payment, so that nobody learns or fakes anything with its address.
    """

    def __init__(self, title: str, *paragraphs: str) -> None:
        self._title = title
        self._paragraphs = paragraphs

    @classmethod
    def paid(cls) -> CheckoutPageResource:
        """Return the page after a payment."""
        return cls(
            "Thank you",
            "The payment is on its way. Your organization's balance grows as soon as the payment provider confirms it:"
            " at once for most cards, within days for a bank transfer.",
            "You can close this page.",
        )

    @classmethod
    def canceled(cls) -> CheckoutPageResource:
        """Return the page after a payment that was given up."""
        return cls("Not paid", "Nothing was paid, and the balance is as it was.", "You can close this page.")

    def on_get(self, req: falcon.Request, resp: falcon.Response) -> None:
        """Show the page."""
        head = f'<link rel="stylesheet" href="{path_to_root(req)}docs/static/page.css">'
        text = "\n".join(f"<p>{paragraph}</p>" for paragraph in self._paragraphs)
        respond_with_page(resp, self._title, head, f"<h1>{self._title}</h1>\n{text}")
