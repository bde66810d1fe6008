from ci_daemon.language import job, pipeline


@pipeline("locks")
def locks() -> None:
    job(
        "deploy",
        image="debian:12",
        matrix={"place": ["east", "west"]},
        concurrency={"group": "deploy"},
        run="./deploy.sh ${{ matrix.place }}",
    )
