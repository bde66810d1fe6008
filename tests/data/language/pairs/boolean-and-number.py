from ci_daemon.language import job, pipeline


@pipeline("boolean-and-number", on={"manual": {"inputs": {"dry_run": {"boolean": True}, "copies": {"number": True, "default": "3"}}}})
def boolean_and_number() -> None:
    job("scale", image="debian:12", run="./scale.sh")
