"""Accounts: users, organizations, members, invites and tokens."""
