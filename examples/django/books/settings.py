"""Settings of a project for tests. libpq takes host, user and password from its own variables."""

SECRET_KEY = "of tests alone"
INSTALLED_APPS = ["books"]
ROOT_URLCONF = "books.views"
ALLOWED_HOSTS = ["*"]
USE_TZ = True
DATABASES = {
    "default": {
        "ENGINE": "django.db.backends.postgresql",
        "NAME": "books",
        # `manage.py test --keepdb` takes the database that `manage.py migrate` has made.
        "TEST": {"NAME": "books"},
    }
}
CACHES = {"default": {"BACKEND": "django_redis.cache.RedisCache", "LOCATION": "redis://cache:6379"}}
