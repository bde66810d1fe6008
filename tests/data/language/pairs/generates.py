from ci_daemon.language import job, pipeline


@pipeline("generates")
def generates() -> None:
    plan = job("plan", image="debian:12", run="./plan.sh > more.yml", generates="more.yml")
    job("notes", image="debian:12", needs=[plan], run="./notes.sh")
