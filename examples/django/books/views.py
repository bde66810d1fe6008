"""The number of books on a subject, which is counted once a minute."""

from django.core.cache import cache
from django.http import HttpRequest, JsonResponse
from django.urls import path

from books.models import Book


def count(_request: HttpRequest, subject: str) -> JsonResponse:
    """Answer with the number of books, from Redis if it is there."""
    books = Book.objects.filter(subjects__contains=[subject])
    return JsonResponse({"books": cache.get_or_set(f"count:{subject}", books.count, 60)})


urlpatterns = [path("subjects/<slug:subject>/", count)]
