"""The same pipeline in Python: an image is built, pushed and run."""

from ci_daemon.language import job, pipeline

REGISTRY = {"image": "registry:2", "ready": 5000, "files": {"/var/lib/registry": "/srv/registry"}}
INSTALL = "apt-get update && apt-get install -y --no-install-recommends podman crun busybox-static"
PUSH = """
cp "$(command -v busybox)" .
podman build --tag "$IMAGE" .
podman push --tls-verify=false "$IMAGE"
podman rmi --all --force
"""
SMOKE = """
podman run --rm --tls-verify=false "$IMAGE" | tee said
grep -qx "hello, made in two stages" said
"""


@pipeline(
    "image",
    name="Image",
    env={"IMAGE": "localhost:5000/hello:1"},
    timeout="20m",
)
def image() -> None:
    tools = job("tools", image="debian:12", cache=True, run=f"command -v podman || {{ {INSTALL}; }}")
    beside = {"registry": REGISTRY}
    push = job("push", from_=tools, containers=True, services=beside, run=PUSH.lstrip())
    job("smoke", from_=push, containers=True, services=beside, run=SMOKE.lstrip())
