from ci_daemon.language import job, pipeline


@pipeline("diamond")
def diamond() -> None:
    setup = job("setup", image="node:22", run="npm ci")
    lint = setup.then("lint", run="npm run lint")
    test = setup.then("test", run="npm test")
    setup.then("pack", needs=[lint, test], run="npm pack")
