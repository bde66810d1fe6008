from ci_daemon.language import job, pipeline


@pipeline("two-services")
def two_services() -> None:
    job(
        "test",
        image="python:3.12",
        services={"cache": {"image": "redis:7", "ready": 6379}, "mail": {"image": "mailpit", "command": ["--smtp", ":25"]}},
        run="pytest",
    )
