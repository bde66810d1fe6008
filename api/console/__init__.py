"""The console: pages for people. They call what the API's resources call, with a session in a cookie."""

from __future__ import annotations
