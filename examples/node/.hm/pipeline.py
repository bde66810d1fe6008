from datetime import timedelta

import harmont as hm


@hm.pipeline("node", timeout="20m")
def node() -> tuple[hm.Step, ...]:
    base = hm.sh(
        "apt-get update && apt-get install -y --no-install-recommends nodejs npm",
        label="Node",
        image="debian:12",
        cache=hm.ttl(timedelta(days=1)),
    )
    modules = base.sh("npm ci", label="Install", cache=hm.compose(hm.forever(), hm.on_change("package-lock.json")))
    build = modules.sh("npm run build", label="Build", runner_args={"artifacts": ["dist"]})
    test = build.sh("npm test", label="Test")
    return (test,)
