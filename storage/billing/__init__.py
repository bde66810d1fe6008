"""Billing in whole cents: prices, metering, holds, ledger, coupons (wire-decisions.md, "Billing")."""
