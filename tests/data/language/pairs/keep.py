from ci_daemon.language import job, pipeline


@pipeline("keep")
def keep() -> None:
    job("install", image="debian:12", keep=["~/.cache/tools", "modules"], run="./install.sh")
