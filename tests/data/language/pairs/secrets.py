from ci_daemon.language import job, pipeline


@pipeline("secrets")
def secrets() -> None:
    job("push", image="debian:12", secrets=["REGISTRY_USER", "REGISTRY_PASSWORD"], run="./push.sh")
