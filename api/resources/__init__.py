"""Falcon resources, a module for each noun of the API."""
