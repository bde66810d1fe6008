from ci_daemon.language import job, pipeline


@pipeline("service")
def service() -> None:
    job(
        "test",
        image="golang:1.22",
        services={"db": {"image": "postgres:16", "env": {"POSTGRES_PASSWORD": "x"}, "ready": "pg_isready"}},
        env={"PGHOST": "db"},
        run="go test ./...",
    )
