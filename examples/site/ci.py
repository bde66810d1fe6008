"""The same pipeline in Python: a site with a preview."""

from ci_daemon.language import job, pipeline


@pipeline(
    "site",
    name="Site",
    on={"push": {"branches": "main"}, "pull_request": True},
    timeout="10m",
    defaults={"image": "debian:12"},
)
def site() -> None:
    job("build", run="./build", artifacts="site/**")
    links = job("links", files={"build": "site/**"}, run="./links")
    job(
        "preview",
        needs=links,
        when={"event": ["pull_request", "manual"]},
        run='echo "[Look at the site]($CI_BUILD_URL), of \\`$CI_BRANCH\\`" >>"$CI_SUMMARY"',
    )
    job(
        "publish",
        needs=links,
        files={"build": "site/**"},
        when={"branch": "main"},
        run="tar -czf site.tar.gz site",
        artifacts="site.tar.gz",
    )
