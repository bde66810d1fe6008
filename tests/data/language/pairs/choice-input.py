from ci_daemon.language import job, pipeline


@pipeline("choice-input", on={"manual": {"inputs": {"target": {"choice": ["staging", "production"], "default": "staging", "help": "Where to deploy"}}}})
def choice_input() -> None:
    job("deploy", image="debian:12", run="./deploy.sh \"$INPUT_TARGET\"")
