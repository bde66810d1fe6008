from ci_daemon.language import job, pipeline


@pipeline("ready-service")
def ready_service() -> None:
    job(
        "test",
        image="debian:12",
        services={"web": {"image": "debian:12", "command": ["python3", "-m", "http.server", "8080"], "ready": 8080}},
        run="./test.sh http://web:8080/",
    )
