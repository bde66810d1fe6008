"""The same pipeline in Python: tests with PostgreSQL and Redis."""

from ci_daemon.language import job, pipeline

DATABASE = {
    "image": "postgres:16",
    "env": {"POSTGRES_DB": "books", "POSTGRES_PASSWORD": "only-here"},
    "ready": "pg_isready --host localhost",
    "files": {"/var/lib/postgresql/data": "/srv/database"},
}
CACHE = {"image": "redis:7", "ready": 6379}


@pipeline(
    "django",
    name="Django",
    env={"PGHOST": "db", "PGUSER": "postgres", "PGPASSWORD": "only-here"},
    timeout="20m",
)
def django() -> None:
    install = job(
        "install",
        image="python:3.12",
        cache={"files": "requirements.txt"},
        run="pip install --requirement requirements.txt",
    )
    migrated = job(
        "migrated",
        from_=install,
        services={"db": DATABASE},
        cache={"files": "books/migrations/*.py"},
        run="python3 manage.py migrate",
    )
    job(
        "test",
        from_=migrated,
        services={"db": DATABASE, "cache": CACHE},
        run="python3 manage.py test --keepdb",
    )
