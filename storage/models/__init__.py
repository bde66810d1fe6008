"""Peewee models, bound to no database. Migrations create the tables; a test compares the two."""
