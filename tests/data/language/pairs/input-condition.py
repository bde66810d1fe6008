from ci_daemon.language import job, pipeline


@pipeline("input-condition", on={"manual": {"inputs": {"target": {"choice": ["staging", "production"], "default": "staging"}}}})
def input_condition() -> None:
    deploy = job("deploy", image="debian:12", run="./deploy.sh")
    job("tell", image="debian:12", needs=[deploy], when={"inputs": {"target": ["production"]}}, run="./tell.sh")
