"""Billing in whole cents: prices, metering, ledger, coupons, usage (wire-decisions.md, "Billing")."""
