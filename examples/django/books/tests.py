"""Tests that need PostgreSQL and Redis."""

from django.core.cache import cache
from django.test import TestCase

from books.models import Book


class CountTest(TestCase):
    def setUp(self) -> None:
        cache.clear()
        Book.objects.create(title="Moby-Dick", subjects=["whales", "ships"])
        Book.objects.create(title="Lord Jim", subjects=["ships"])

    def test_books_are_counted_by_subject(self) -> None:
        assert self.client.get("/subjects/whales/").json() == {"books": 1}
        assert self.client.get("/subjects/ships/").json() == {"books": 2}

    def test_books_are_counted_once(self) -> None:
        with self.assertNumQueries(1):
            self.client.get("/subjects/ships/")
            self.client.get("/subjects/ships/")
