from ci_daemon.language import job, pipeline


@pipeline("pull-request-types", on={"pull_request": {"types": ["opened", "ready_for_review"]}})
def pull_request_types() -> None:
    job("review", image="debian:12", run="./review.sh")
