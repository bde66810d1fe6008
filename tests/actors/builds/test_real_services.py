"""Services that are real servers: PostgreSQL, MariaDB, Redis and RabbitMQ, as Debian packages them."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from actors.vms import Images, ImageStore
from actors.vms.host import IdMap
from storage import Build, JobErrorCode, JobState
from tests.actors.conftest import Host, real_images
from tests.registry import store_beside
from tests.servers import servers

pytestmark = pytest.mark.sandbox

IMAGE = "servers:1"
DATA = "/data"

POSTGRES = f"""
export PATH=$PATH:/usr/lib/postgresql/15/bin
mkdir -p {DATA}; chown postgres {DATA}
run() {{ exec setpriv --reuid=postgres --regid=postgres --init-groups "$@"; }}
[ -e {DATA}/PG_VERSION ] || (run initdb --no-sync --auth=trust --pgdata={DATA}) || exit
run postgres -D {DATA} -c listen_addresses='*' -c unix_socket_directories=/tmp
"""
MARIADB = """
mkdir -p /run/mysqld; chown mysql /run/mysqld
echo "CREATE USER ci@'%' IDENTIFIED BY 'only-here';" >/tmp/init
exec mariadbd --user=mysql --init-file=/tmp/init
"""
REDIS = ["redis-server", "--bind", "0.0.0.0", "--protected-mode", "no", "--dir", "/tmp"]
RABBITMQ = ["setpriv", "--reuid=rabbitmq", "--regid=rabbitmq", "--init-groups", "/usr/lib/rabbitmq/bin/rabbitmq-server"]


def server(command: str | list[str], ready: object, **fields: Any) -> dict[str, object]:
    """Return a service of the image with the servers; a text is a program of sh."""
    argv = ["sh", "-c", command] if isinstance(command, str) else command
    return {"image": IMAGE, "command": argv, "ready": ready, **fields}


def postgres(**fields: Any) -> dict[str, object]:
    """Return a PostgreSQL that makes its database unless it has one, as the image of its makers does."""
    return server(POSTGRES, "pg_isready --host localhost", **fields)


@pytest.fixture(scope="module")
def folder(images_dir: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """An image store that has the servers, too."""
    with store_beside(images_dir, tmp_path_factory.mktemp("servers") / "images") as folder:
        with servers().open("rb") as tar:
            ImageStore(folder, IdMap.of_caller()).import_(IMAGE, tar)
        yield folder


@pytest.fixture
def images(folder: Path) -> Images:
    return real_images(folder)


def job(run: str, services: Mapping[str, object], **fields: Any) -> dict[str, object]:
    """Return a job that has the clients of all servers."""
    return {"image": IMAGE, "memory": "2GB", "run": run, "services": services, **fields}


def build(host: Host, **jobs: object) -> Build:
    """Build these jobs to their end."""
    return host.finish(host.build(json.dumps({"version": "1", "jobs": jobs})), 120)


def log_of(host: Host, build: Build, service: str) -> str:
    """Return all of the log of a service of the job ``only``."""
    log = host.storage.logs.service_reader(build.uuid, host.job(build).uuid, service)
    return log.read(0, log.size()).decode()


SERVERS = {
    "postgresql": (
        postgres(),
        "psql --host db --username postgres --no-align --tuples-only --command 'SELECT 6 * 7'",
        "42",
        "database system is ready to accept connections",
    ),
    "mariadb": (
        server(MARIADB, "mariadb-admin --silent --user=ci --password=only-here --host=127.0.0.1 ping"),
        "mariadb --host=db --user=ci --password=only-here --skip-column-names --execute 'SELECT 6 * 7'",
        "42",
        "ready for connections",
    ),
    "redis": (server(REDIS, 6379), "redis-cli -h db set n 41; redis-cli -h db incr n", "OK\n42", "Ready to accept"),
    "rabbitmq": (
        server(RABBITMQ, 5672, env={"RABBITMQ_LOGS": "-", "HOME": "/var/lib/rabbitmq"}),
        r"exec 3<>/dev/tcp/db/5672; printf 'AMQP\0\0\11\1' >&3; head -c 200 <&3 | grep -ao publisher_confirms",
        "publisher_confirms",
        "Server startup complete",
    ),
}


@pytest.mark.parametrize("name", SERVERS)
def test_server_is_ready_when_the_command_begins(host: Host, images: Images, name: str) -> None:
    """It answers the command at once, without a retry; the job notes the digest of its image."""
    service, ask, answer, line = SERVERS[name]
    done = build(host, only=job(ask, {"db": service}))
    assert host.job(done).state is JobState.PASSED, (host.log(done), log_of(host, done, "db"))
    assert host.log(done).decode() == f"services are ready: db\n{answer}\n"
    assert line in log_of(host, done, "db")
    digest = images.digest(IMAGE)
    assert digest is not None
    assert (host.job(done).image_digest, host.job(done).service_image_digests) == (digest, {"db": digest})


def test_database_is_forked_with_the_disk_of_its_job(host: Host) -> None:
    """It was ended in peace: each copy starts without recovery, and has none of the other's rows."""
    services = {"db": postgres(files={DATA: "/srv/db"})}
    ask = "psql --host db --username postgres --quiet --no-align --tuples-only --command"
    insert = f'{ask} "INSERT INTO n VALUES (2)"; {ask} "SELECT sum(i) FROM n"'
    done = build(
        host,
        migrated=job(f'{ask} "CREATE TABLE n (i int)"; {ask} "INSERT INTO n VALUES (40)"', services),
        first={"from": "migrated", "run": insert, "services": services},
        only={"from": "migrated", "run": insert, "services": services},
    )
    assert done.state == "passed"
    for key in ("first", "only"):
        assert host.log(done, key).decode().splitlines()[-1] == "42"
    log = log_of(host, done, "db")
    assert "database system was shut down at" in log
    assert "not properly shut down" not in log


def test_server_that_forks_serves_and_is_ended(host: Host) -> None:
    """The rest of the program is the service, and its end after the command is no failure."""
    daemon = server([*REDIS, "--daemonize", "yes"], 6379, fails_job=True)
    done = build(host, only=job("redis-cli -h db ping", {"db": daemon}))
    assert host.job(done).state is JobState.PASSED, (host.log(done), log_of(host, done, "db"))
    assert host.log(done).decode() == "services are ready: db\nPONG\n"


def test_server_that_needs_another_waits_for_it(host: Host) -> None:
    """A replica starts at once with its primary, and the command once the replica has all of that."""
    synced = "redis-cli -p 6380 info replication | grep master_link_status:up"
    services = {
        "replica": server([*REDIS, "--port", "6380", "--replicaof", "primary", "6379"], synced),
        "primary": server(f"sleep 1; exec {' '.join(REDIS)}", 6379),
    }
    set_one = "printf 'SET n 42\\nWAIT 1 0\\n' | redis-cli -h primary"  # a connection waits for its own writes
    run = f"{set_one}; redis-cli -h replica -p 6380 get n"
    done = build(host, only=job(run, services))
    assert host.job(done).state is JobState.PASSED, (host.log(done), log_of(host, done, "replica"))
    assert host.log(done).decode().splitlines()[-3:] == ["OK", "1", "42"]


def test_server_that_never_gets_ready_is_told_in_words(host: Host) -> None:
    """The message has what was awaited and how long, and the last lines of the server."""
    redis = server(REDIS, {"port": 6380, "timeout": "2s"})
    job_ = host.job(build(host, only=job("echo ran", {"db": redis})))
    assert (job_.state, job_.error_code) == (JobState.FAILED, JobErrorCode.SERVICE_FAILED)
    message = job_.error_message or ""
    assert "the service db failed: it was not ready in time: nothing takes connections at its port 6380" in message
    assert message.endswith("Ready to accept connections")


def test_server_that_fails_at_its_start_is_told_in_words(host: Host) -> None:
    """Nobody waits for its time-out, which is a minute."""
    done = build(host, only=job("echo ran", {"db": server("exec postgres-wrong", 5432), "cache": server(REDIS, 6379)}))
    assert host.job(done).error_code == JobErrorCode.SERVICE_FAILED
    assert "the service db failed: it ended with exit code 127" in (host.job(done).error_message or "")


@pytest.mark.parametrize("fails", [False, True])
def test_server_that_dies_may_fail_the_job(host: Host, fails: bool) -> None:
    """The command takes its database down, and goes on until it is ended for that, or to its own end."""
    after = "sleep 1000" if fails else "until grep -q 1 /tmp/ended; do redis-cli -h db ping || echo 1 >/tmp/ended; done"
    run = f"redis-cli -h db shutdown nosave; {after}"
    done = build(host, only=job(run, {"db": server(REDIS, 6379, fails_job=fails)}))
    assert b"the service db ended with exit code 0\n" in host.log(done), (host.job(done), log_of(host, done, "db"))
    if fails:
        assert host.job(done).error_message == "the service db ended with exit code 0 before the command"
        assert "User requested shutdown" in log_of(host, done, "db")
    else:
        assert host.job(done).state is JobState.PASSED
