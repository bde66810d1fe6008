"""Payments: checkout at the payment provider, and its reports (wire-decisions.md, "Billing")."""

from __future__ import annotations
