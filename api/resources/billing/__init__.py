"""Money: balances, usage, coupons and payments."""

from __future__ import annotations

__all__: list[str] = []
