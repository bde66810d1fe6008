from ci_daemon.language import job, pipeline


@pipeline("tags", on={"tag": ["v*"]})
def tags() -> None:
    job("release", image="debian:12", secrets=["TOKEN"], run="./release.sh")
