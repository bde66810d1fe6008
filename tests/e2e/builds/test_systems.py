"""Files of Woodpecker and builds.sr.ht run as they are, and others that hand files over.

No image of theirs is on this host: others have their names, and programs of the source stand for those that they have.
"""

from __future__ import annotations

import io
import tarfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from ci_daemon.command import main
from tests.e2e.daemon import Build, Client, Daemon
from tests.e2e.renders import rendered
from tests.e2e.stand_ins import stand_ins

REAL = Path(__file__).parents[2] / "data" / "convert" / "real"
PATH = "/workspace/programs:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
LISTEN = "import socket; s = socket.create_server(('', 5432))\nwhile True: s.accept()[0].close()"
IMAGES = (
    "golang:1.21",
    "golang:1.22",
    "node:22",
    "debian",
    "debian:stable",
    "alpine:edge",
    "alpine:latest",
    "archlinux:latest",
)
PRINT = (
    "import json, os, pathlib; given = {n[7:]: v for n, v in os.environ.items() if n.startswith('PLUGIN_')};"
    "print(json.dumps(given, sort_keys=True)); print(*sorted(map(str, pathlib.Path('public').iterdir())), os.getcwd())"
)
PLUGIN = {"program": {"entry_point": ["python3", "-c"], "command": [PRINT], "user": "nobody", "folder": "/"}}
DATABASE = {"program": {"entry_point": ["python3", "-c", LISTEN], "command": [], "user": "", "folder": "/"}}


@pytest.fixture(scope="module")
def settings(images_dir: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, str]]:
    systems: dict[str, Mapping[str, Any]] = {name: {"environment": {"PATH": PATH}} for name in IMAGES}
    folder = tmp_path_factory.mktemp("store") / "images"
    with stand_ins(images_dir, folder, {**systems, "postgres:16": DATABASE, "woodpeckerci/plugin-s3": PLUGIN}) as store:
        yield {"CI_DAEMON_IMAGES_DIR": str(store), "CI_DAEMON_POOL_PARKED": "0", "CI_DAEMON_POOL_MAX_VMS": "4"}


@pytest.fixture(scope="module")
def client(daemon: Daemon) -> Client:
    return Client.create(daemon, "ada@example.org")


@dataclass
class Case:
    """The programs that a file calls, its secrets, and texts in the logs of its jobs, which all pass."""

    programs: Mapping[str, str]
    logs: Mapping[str, str]
    secrets: Mapping[str, str] = field(default_factory=dict)


GO = 'echo "go $*"'
CASES = {
    "woodpecker/cached-node": Case(
        {"npm": 'echo "npm $*"; [ "$1" = test ] && cat made || echo installed > made'},
        {"install": "npm ci", "test": "npm test\ninstalled\n"},
    ),
    "woodpecker/go": Case(
        {"go": 'echo "go $*, cgo ${CGO_ENABLED-unset}"'},
        {
            "vet": "go vet ./..., cgo unset",
            "test": "go test -race -cover ./..., cgo 1",
            "build": "go build -ldflags -X main.version=01234567 ./cmd/app",
        },
    ),
    "woodpecker/hello": Case({}, {"build": "This is the build step", "check": ""}),
    "woodpecker/matrix": Case(
        {"go": GO},
        {
            f"test-{version}-{tags}": f"go test -tags {tags} ./..."
            for version in ("1.21", "1.22")
            for tags in ("sqlite", "postgres")
        },
    ),
    "woodpecker/service": Case(
        {"go": 'echo "go $* at $DATABASE"; exec 3<> /dev/tcp/database/5432 && echo reached'},
        {"test": "at postgres://postgres:secret@database/app\nreached\n"},
    ),
    "woodpecker/side-by-side": Case(
        {"go": GO, "npm": 'echo "npm $* in $PWD"'},
        {"backend": "go test ./...", "frontend": "npm test in /workspace/web"},
    ),
    "woodpecker/site": Case(
        {
            "npm": '[ "$1" = run ] || exit 0; [ "$2" = check ] && cat site || { mkdir public; echo x > public/a.js; }',
            "go": "ls public > site; touch /root/left",
        },
        {
            "assets": "",
            "build": 'the workspace is as "assets" left it',
            "check": "a.js",
            "upload": '{"ACCESS_KEY": "***", "BUCKET": "example-site", "EXCLUDE": "*.map,drafts", "METADATA": '
            '"{\\"cache\\":{\\"max-age\\":60}}", "SOURCE": "public/**/*", "TARGET": '
            '"/0123456789012345678901234567890123456789"}\n'
            "public/a.js /workspace\n",
        },
        secrets={"PLUGIN_ACCESS_KEY": "a-long-secret-key"},
    ),
    "sourcehut/alpine": Case(
        {"apk": 'echo "apk $*"', "meson": "mkdir $2", "ninja": 'ls -d build; echo "ninja $* in $PWD"'},
        {"alpine": "ninja -C build test in /root/project"},
    ),
    "sourcehut/arch": Case(
        {"pacman": 'echo "pacman $*"', "pytest": 'echo "tests in $PWD"'},
        {"arch": "pacman -Syu --noconfirm --needed python python-pytest"},
    ),
    "sourcehut/debian-artifact": Case(
        {"apt-get": 'echo "apt-get $*"', "make": 'echo "make with $GOFLAGS"', "git": 'echo "git $*" > "$3"'},
        {"debian-artifact": "make with -mod=readonly"},
    ),
    "sourcehut/deploy-secret": Case(
        {
            "apk": 'echo "apk $*"',
            "hugo": "mkdir public",
            "rsync": 'test -z "${SSH_KEY-}"; grep -c "" ~/.ssh/id_rsa; echo "rsync $*"',
        },
        {"deploy-secret": "rsync -r public/ deploy@example.org:/srv/www"},
        secrets={"SSH_KEY": "-----BEGIN KEY-----\nof two lines\n"},
    ),
}
HANDED = """\
build-a: {stage: build, image: debian, script: [mkdir a, echo of a > a/one], artifacts: {paths: [a/]}}
build-b:
  stage: build
  image: debian
  script: [mkdir b, echo of b > b/two, echo B_SAYS=told > b.env]
  artifacts: {paths: [b/], reports: {dotenv: b.env}}
test: {stage: test, image: "node:22", script: [cat a/one b/two, echo "$B_SAYS"]}
"""
MOVED = """\
on: push
jobs:
  version:
    runs-on: ubuntu-latest
    container: debian
    outputs: {of: "${{ steps.read.outputs.of }}"}
    steps: [{id: read, run: 'echo "of=1 & 2" >> "$GITHUB_OUTPUT"'}]
  build:
    runs-on: ubuntu-latest
    container: debian
    strategy: {matrix: {part: [one, two]}}
    steps:
      - run: mkdir -p dist && echo ${{ matrix.part }} > dist/${{ matrix.part }}.txt
      - {uses: actions/upload-artifact@v4, with: {name: "dist-${{ matrix.part }}", path: "dist/*.txt"}}
  publish:
    needs: [build, version]
    runs-on: ubuntu-latest
    container: debian
    steps:
      - {uses: actions/download-artifact@v4, with: {pattern: "dist-*", path: out, merge-multiple: true}}
      - run: cat out/one.txt out/two.txt
      - run: echo "${{ needs.version.outputs.of }}"
"""
WAITED_FOR = "steps: [{name: make, image: debian, commands: [echo lost > left]}]"
WAITING = """\
depends_on: [first]
steps:
  - {name: make, image: debian, commands: [test ! -e left, echo of debian > left]}
  - {name: check, image: "node:22", commands: [cat left]}
"""


def source(pipelines: Mapping[str, str], programs: Mapping[str, str]) -> bytes:
    """Return an archive of pipelines, of programs of bash, and of the folder `web`."""
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w:gz") as tar:
        scripts = {f"programs/{name}": f"#!/bin/bash\nset -e\n{text}\n" for name, text in programs.items()}
        for name, text in {**pipelines, **scripts, "web/package.json": "{}"}.items():
            info = tarfile.TarInfo(name)
            info.size, info.mode = len(text.encode()), 0o755
            tar.addfile(info, io.BytesIO(text.encode()))
    return buffer.getvalue()


def check(build: Build, logs: Mapping[str, str]) -> None:
    state, states = build.finish()["state"], build.states()
    said = {key: build.log(key) for key in states}
    assert (state, states) == ("passed", dict.fromkeys(logs, "passed")), said
    for key, text in logs.items():
        assert text in said[key]


@pytest.mark.parametrize("name", CASES)
def test_a_file_of_another_system_runs_as_it_is(client: Client, name: str):
    case, (system, _, file) = CASES[name], name.partition("/")
    pipeline = client.pipeline(file)
    for secret, value in case.secrets.items():
        assert client.request("PUT", f"secrets/{secret}", json={"value": value}).status_code == 200
    place = f".woodpecker/{file}.yml" if system == "woodpecker" else f".builds/{file}.yml"
    given = source({place: (REAL / f"{name}.yml").read_text()}, case.programs)
    check(rendered(pipeline, given, commit="0123456789" * 4, env={"CI_EVENT": "push"}), case.logs)


def test_files_that_wait_for_each_other_run_as_they_are(client: Client):
    given = source({".woodpecker/first.yml": WAITED_FOR, ".woodpecker/second.yml": WAITING}, {})
    build = rendered(client.pipeline("second"), given, env={"CI_EVENT": "push"})
    check(build, {"first-make": "", "second-make": "", "second-check": "of debian\n"})


def test_the_files_are_all_but_one_that_is_refused():
    files = {f"{each.parent.name}/{each.stem}" for each in REAL.glob("*/*.yml")}
    ours = {each for each in files if each.startswith(("woodpecker/", "sourcehut/"))}
    assert ours - set(CASES) == {"woodpecker/publish"}


@pytest.mark.parametrize(
    ("file", "text", "logs"),
    [
        (".gitlab-ci.yml", HANDED, {"build-a": "", "build-b": "", "test": "of a\nof b\ntold\n"}),
        (
            ".github/workflows/ci.yml",
            MOVED,
            {"version": "", "build-one": "", "build-two": "", "publish": "one\ntwo\n1 & 2\n"},
        ),
    ],
)
def test_converted_jobs_get_the_files_of_others(
    client: Client, file: str, text: str, logs: dict[str, str], tmp_path: Path
):
    (tmp_path / file).parent.mkdir(parents=True, exist_ok=True)
    (tmp_path / file).write_text(text)
    assert main(["convert", str(tmp_path)]) == 3
    pipeline = client.pipeline("gitlab" if "gitlab" in file else "github")
    (made,) = (tmp_path / ".hm").iterdir()
    check(rendered(pipeline, source({f".hm/{pipeline.slug}.yml": made.read_text()}, {})), logs)
