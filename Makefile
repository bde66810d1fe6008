# `make run` builds an example, `make serve` runs the service, `make test` is what CI runs. All first set up what they
# need and no more: `make run` takes under a minute the first time, `make test` a few, and both a second later. That needs
# make, python3 and apt as root; without root, the commands to run with `sudo` are printed.

# What developers need has an environment of its own, what running needs another.
VENV := .venv
LOCK := requirements/test.txt
BIN := $(VENV)/bin
RUN := .run
PROGRAM := $(RUN)/venv/bin/ci-daemon
STATE := $(RUN)/state
TEST_PROGRAMS := $(RUN)/test-programs

# Without bytecode every program that a test starts would compile the product anew.
unexport PYTHONDONTWRITEBYTECODE

# Images are large and the same in every checkout; set this to share them.
export CI_DAEMON_IMAGES_DIR ?= $(CURDIR)/$(RUN)/images

.PHONY: run serve ready setup host test test-newest test-ready test-browser test-machines test-members test-servers test-qemu test-crash test-power test-leaks test-fleet test-system test-packages lint types docs
.PHONY: dist portable deb pictures bench clean

# What it caches is below the checkout, too.
run: export XDG_CACHE_HOME := $(abspath $(RUN)/cache)
run: DIR := examples/hello
# PROVIDER=qemu runs it in machines with a kernel of their own.
PROVIDER := sandbox
run: export CI_DAEMON_POOL_PROVIDER = $(PROVIDER)
run: first
	@$(PROGRAM) run $(DIR)

# The image is made beside the environment, by a Python without packages.
.PHONY: first first-image
first:
	@.ci/host vms >/dev/null
	@$(MAKE) --no-print-directory --jobs 2 $(RUN)/venv/.complete first-image
first-image:
	@"$$(.ci/host)" .ci/image $(STATE)

# After Ctrl-C no VM is left: `--wait` is for those of jobs, and none is parked.
serve: export CI_DAEMON_POOL_PARKED ?= 0
serve: SERVICE = $(PROGRAM) --state-dir $(STATE)
serve: ready $(RUN)/token
	@$(MAKE_IMAGE)
	@echo "Sign in as $(ACCOUNT), once, within 15 minutes: $$($(SERVICE) user link $(ACCOUNT))"
	@echo "Build, in another terminal: CI_DAEMON_TOKEN=\$$(cat $(RUN)/token) $(PROGRAM) submit examples/hello"
	@$(SERVICE) serve --wait

# The API key of a user with credit.
ACCOUNT := ada@example.org
$(RUN)/token: | ready
	@$(SERVICE) user list | grep -q $(ACCOUNT) || $(SERVICE) user add $(ACCOUNT) --name Ada >/dev/null
	@$(SERVICE) ledger grant ada-example-org 10000 --note "a first session" >/dev/null
	@umask 077 && $(SERVICE) token create $(ACCOUNT) | sed 's/.*: //' >$@

# Of serving, and of developing.
ready: SERVICE = $(PROGRAM) --state-dir $(STATE)
ready: $(RUN)/venv/.complete
	@$(MAKE_READY)

setup: SERVICE = $(BIN)/ci-daemon --state-dir $(STATE)
setup: host
	@$(MAKE_IMAGE)

host: SERVICE = $(BIN)/ci-daemon --state-dir $(STATE)
host: $(VENV)/.complete
	@[ -e $(STATE)/ci-daemon.toml ] || echo "making a state directory, and installing what the doctor misses on this host"
	@$(MAKE_READY)

define MAKE_READY
set -e; $(SERVICE) init >/dev/null; \
[ -e $(STATE)/ci-daemon.toml ] || printf '[images]\ndir = "%s"\n' "$$CI_DAEMON_IMAGES_DIR" >$(STATE)/ci-daemon.toml; \
$(SERVICE) doctor --fix --quiet
endef

define MAKE_IMAGE
[ -e "$$CI_DAEMON_IMAGES_DIR" ] || echo "making the image that VMs start from, once"; $(SERVICE) image build
endef

# The programs of a virtual environment contain its path, so a checkout that was moved or copied needs a new one.
MOVED = $(if $(filter $(CURDIR),$(shell cat $(1)/.complete 2>/dev/null)),,$(1)/.complete)
.PHONY: $(call MOVED,$(VENV)) $(call MOVED,$(RUN)/venv)

# The lock is the script itself. Two runs at once would delete each other's environment.
$(RUN)/venv/.complete: requirements/run.txt
$(VENV)/.complete: $(LOCK)
$(VENV)/.complete $(RUN)/venv/.complete: setup.cfg pyproject.toml .ci/venv
	@mkdir -p $(RUN)
	@flock .ci/venv .ci/venv $(@D) $(filter requirements/%,$^)
	@pwd -P >$@

# Coverage is that of pytest's workers: its start-up hook reads COVERAGE_PROCESS_START, and each worker writes a file of
# its own next to COVERAGE_FILE for `combine`. Test files start in the order of their names, those that are marked as long
# before the others. Many tests wait for something else than the CPU, so four workers keep two cores busy.
# A test that still hangs after its timeout ends the run, with the stacks of all threads.
test: export COVERAGE_FILE := $(CURDIR)/$(RUN)/coverage/data
test:
	@$(MAKE) --no-print-directory --jobs 3 test-ready
	@rm -rf $(RUN)/coverage && mkdir -p $(RUN)/coverage
	COVERAGE_PROCESS_START=$(CURDIR)/setup.cfg $(BIN)/python -m pytest --numprocesses 4 --dist loadfile --no-loadscope-reorder \
		--max-worker-restart 0 -o faulthandler_timeout=600 -o faulthandler_exit_on_timeout=true
	@$(BIN)/coverage combine --quiet
	@$(BIN)/coverage report --include='ci_daemon/*'
	@$(BIN)/coverage report --include='storage/*,api/*,actors/*' --fail-under=90

# The same, with the newest versions that setup.cfg allows.
test-newest:
	@rm -f $(RUN)/newest/.complete
	@$(MAKE) --no-print-directory VENV=$(RUN)/newest LOCK= test

# All that is done before the tests. Each step that takes longer than a second says for what it is, and does so as it
# begins. Parts run at once, but apt serves one caller at a time.
test-ready: setup lint types $(RUN)/tests-collected $(TEST_PROGRAMS)/.complete $(TEST_PROGRAMS)/oidc-provider/.complete $(TEST_PROGRAMS)/axe/.complete $(TEST_PROGRAMS)/octokit/.complete test-browser test-machines test-members test-servers

# pytest compiles the tests in a way of its own. Without this each of its workers would compile all, and under coverage.
$(RUN)/tests-collected: $(shell find tests -name '*.py') | setup $(TEST_PROGRAMS)/.complete $(TEST_PROGRAMS)/octokit/.complete
	@echo "compiling the tests"
	@$(BIN)/python -m pytest --collect-only -qq >$@.log || { cat $@.log; exit 1; }
	@touch $@

$(TEST_PROGRAMS)/.docker-complete: .ci/unpack | $(TEST_PROGRAMS)/.complete
	@.ci/unpack "tests of Docker in machines" $(TEST_PROGRAMS) docker.io containerd runc
	@touch $@

# A registry to pull images from, busybox, of which a test makes the smallest image, what builds and runs images in a job,
# git by ssh and with LFS, shells that complete, and what checks the manual page. fish finds its functions beside itself only if its `etc` is there, too.
$(TEST_PROGRAMS)/.complete: .ci/unpack Makefile | host
	@.ci/unpack "tests with a registry, images, git servers, shells and the manual page" $(TEST_PROGRAMS) docker-registry busybox-static buildah podman crun conmon libyajl2 libgpgme11 libassuan0 libdevmapper1.02.1 libglib2.0-0 libsubid4 openssh-server libwrap0 git-lfs fish fish-common libpcre2-32-0 zsh mandoc
	@ln -sfn ../etc $(TEST_PROGRAMS)/usr/etc
	@touch $@

# Its libraries are many, so that it is installed and not unpacked.
test-browser: | $(TEST_PROGRAMS)/.complete
	@.ci/install chromium chromium "tests in a browser"

# What makes machines. QEMU's libraries are many, too; the kernel need not be that of this host.
test-machines: $(TEST_PROGRAMS)/kernel/.complete $(TEST_PROGRAMS)/member-kernel/.complete | test-browser
	@.ci/install qemu-system-x86_64 qemu-system-x86 "tests of machines"
	@.ci/install qemu-img qemu-utils "tests of machines"

$(TEST_PROGRAMS)/kernel/.complete: .ci/kernel | $(TEST_PROGRAMS)/.complete
	@.ci/kernel "tests of machines" $(@D) linux-image-cloud-amd64
	@touch $@

# The kernel of machines on members, which must have 9p, and the firmware that starts it.
$(TEST_PROGRAMS)/member-kernel/.complete: .ci/kernel | $(TEST_PROGRAMS)/kernel/.complete
	@.ci/kernel "tests of machines on members" $(@D) linux-image-amd64 systemd-boot-efi ovmf
	@touch $@

# The Debian of a member of Incus, which takes under a minute, once. Only root can run one.
test-members: | test-machines
	@[ "$$(id -u)" != 0 ] || { .ci/install mmdebstrap mmdebstrap "tests with Incus" && .ci/install ip iproute2 "tests with Incus" && \
		{ ls -d $(RUN)/fleet/incus-* >/dev/null 2>&1 || echo "making a Debian with Incus, for tests on a member"; } && \
		$(BIN)/python -m tests.fleet.tree incus >/dev/null; }

# The image with servers for services beside jobs, and with what examples need, which takes a minute, once.
test-servers: | test-members
	@ls $(TEST_PROGRAMS)/servers-*/tree.tar >/dev/null 2>&1 || \
		echo "making a Debian with PostgreSQL, MariaDB, Redis, RabbitMQ, Django and Podman, for tests of services and examples"
	@$(BIN)/python -m tests.servers

# An OpenID Connect issuer to sign in with.
$(TEST_PROGRAMS)/oidc-provider/.complete: .ci/npm tests/api/sign_in/oidc_provider/package-lock.json $(VENV)/.complete
	@.ci/npm $(VENV) tests/api/sign_in/oidc_provider $(@D) "an OpenID Connect issuer that tests sign in with"
	@touch $@

# What finds barriers on pages.
$(TEST_PROGRAMS)/axe/.complete: .ci/npm tests/e2e/console/axe/package-lock.json $(VENV)/.complete
	@.ci/npm $(VENV) tests/e2e/console/axe $(@D) "tests that look for barriers on pages"
	@touch $@

# GitHub's description of its API, examples of its deliveries, and the program that signs them. Of the descriptions,
# which are large, one is needed.
OCTOKIT := tests/actors/source_hosts/github/octokit
$(TEST_PROGRAMS)/octokit/.complete: .ci/npm $(OCTOKIT)/package-lock.json $(VENV)/.complete
	@.ci/npm $(VENV) $(OCTOKIT) $(@D) "tests against GitHub's own description"
	@cd $(@D)/node_modules/@octokit/openapi/generated && find . -name '*.json' ! -name api.github.com.json -delete
	@touch $@

# Minutes of `kill -9`. It prints the seed of its schedule; CRASH_SEED=… repeats a schedule.
test-crash: export CRASH_KILLS ?= 200
test-crash: setup
	$(BIN)/python -m pytest --timeout 3600 -s tests/crash

# Cuts the power of a service's disk, as root. It prints its seed; POWER_SEED=… repeats its moments.
test-power: export POWER_CUTS ?= 100
test-power: setup
	$(BIN)/python -m pytest --timeout 7200 -s tests/power

# Compares what a daemon holds of the host before and after that many jobs.
test-leaks: export LEAK_JOBS ?= 2000
test-leaks: setup
	$(BIN)/python -m pytest --timeout 7200 -s tests/e2e/host/test_leaks.py

# The whole contract of VMs, on machines, which run Docker, too.
test-qemu: export FULL_CONTRACT := qemu
test-qemu: setup test-machines $(TEST_PROGRAMS)/.docker-complete
	$(BIN)/python -m pytest --timeout 1800 -k qemu tests/vms/contract tests/actors/vms/qemu

# Machines with systemd as PID 1, in namespaces, so only as root. Takes minutes, and more the first time, when it makes
# the Debian that they start from.
test-system: setup
	$(BIN)/python -m pytest --timeout 1800 tests/system

# What users install, on fresh machines and in fresh environments; as root, and with the same machines.
test-packages: setup deb portable
	$(BIN)/python -m pytest --timeout 1800 tests/packages

# Real members of Incus and LXD, alone and as a cluster of three, in namespaces, so only as root. Makes the Debians that
# they start from first, which takes a minute and a half. The essential cases of the VMs' contract are part of it, on Incus
# over TLS and on LXD; `make test` has those on Incus by its socket. Most tests wait for members, so two workers halve it.
test-fleet: export ESSENTIAL_CONTRACT := incus-tls,lxd
test-fleet: setup $(TEST_PROGRAMS)/.complete
	@$(BIN)/python -m tests.fleet.tree incus lxd >/dev/null
	$(BIN)/python -m pytest --timeout 600 --numprocesses 2 --dist loadfile --no-loadscope-reorder \
		-k "fleet or incus-tls or lxd" tests/fleet tests/vms/contract

lint: $(VENV)/.complete
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	$(BIN)/python .ci/prose

types: $(VENV)/.complete
	$(BIN)/mypy

docs: $(VENV)/.complete
	$(BIN)/python -m ci_daemon.config.reference docs/configuration.md
	$(BIN)/python -m ci_daemon.manual docs/commands.md
	$(BIN)/python -m ci_daemon.manual.language docs/language.md docs/pipeline.schema.json actors/render/guest/language.py

dist: $(VENV)/.complete
	@.ci/dist $(VENV) dist

# For systems without Debian's packages.
portable: dist
	@.ci/portable $(VENV) dist

# For the release of this system, or for that of SUITE, see docs/install.md.
deb: dist
ifdef SUITE
	@.ci/install mmdebstrap mmdebstrap "packages of other releases"
	@.ci/deb-elsewhere dist $(SUITE)
else
	@.ci/install dh debhelper "the Debian package"
	@.ci/install lintian lintian "the Debian package"
	@.ci/deb dist
endif

pictures: setup test-browser
	$(BIN)/python -m tests.e2e.console.pictures docs/pictures

# `wrk` asks for answers without being a Python program itself.
bench: setup test-machines
	@.ci/install wrk wrk "the benchmark of HTTP"
	$(BIN)/python -m benchmarks

# Layers and images belong to sub-ids, so an ordinary user removes them as root of a user namespace with those ids.
clean: PYTHON := $(firstword $(wildcard $(BIN)/python $(RUN)/venv/bin/python))
clean:
	@if [ -n "$(PYTHON)" ] && [ -e $(STATE) ]; then $(PYTHON) -m ci_daemon --state-dir $(STATE) lease kill --all; fi
	@if [ -n "$(PYTHON)" ] && [ -e $(RUN) ]; then $(PYTHON) -c "$$REMOVE" $(RUN); fi
	rm -rf $(RUN) $(VENV) build dist *.egg-info .mypy_cache .ruff_cache .pytest_cache .hypothesis

define REMOVE
import sys
from pathlib import Path
from actors.vms.host import IdMap, run_mapped
run_mapped(["rm", "-rf", *sys.argv[1:]], idmap=IdMap.of_caller().with_caller(), cwd=Path.cwd())
endef
export REMOVE
