"""Books."""

from django.contrib.postgres.fields import ArrayField
from django.db import models


class Book(models.Model):
    """A book. Its subjects are an array, which PostgreSQL has and SQLite has not."""

    id = models.BigAutoField(primary_key=True)
    title = models.CharField(max_length=200, unique=True)
    subjects = ArrayField(models.CharField(max_length=50), default=list)
