from ci_daemon.language import job, pipeline


@pipeline("requests-alone", on={"manual": True})
def requests_alone() -> None:
    job("deploy", image="debian:12", run="./deploy.sh")
