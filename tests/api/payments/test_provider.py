"""The local provider of these tests signs as the provider's own library does."""

from __future__ import annotations

from tests.payment_provider import signature_at


def test_a_signature_is_that_of_the_providers_own_library():
    """The header is what version 16.1 of that library made."""
    signed = signature_at(1790000000, '{"id": "evt_1", "name": "Zoë"}'.encode(), "whsec_of_the_tests")
    assert signed == "t=1790000000,v1=372d7b7a96c78a0d9c38dfd27b8df5d99a0e0fd136db42b9250ed04851ab16e3"
