"""All commands with their lines and headings in the help; each is imported on first use."""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

    import click

HEADINGS: Mapping[str, Mapping[str, str]] = {
    "Set up": {
        "install": "Install or upgrade the service on this host.",
        "uninstall": "Remove the service from this host.",
        "init": "Make the state directory: database, keys, folders.",
        "completion": "Print the completion of a shell: bash, zsh or fish.",
        "config check": "Check the configuration.",
        "config show": "Show every setting in effect, and its origin.",
        "doctor": "Check this machine; print a fix for each failure.",
        "github bind": "Bind an installation of the GitHub app.",
        "github setup": "Make the GitHub app of this service.",
        "incus setup": "Prepare an Incus or LXD engine for VMs.",
        "incus status": "List the members of the engine.",
        "image build": "Make an image of a Debian or Ubuntu release.",
        "image default": "Show or change the default image.",
        "image import": "Make an image of a root file system's tar.",
        "image list": "List the images, and what uses them.",
        "image pull": "Pull an image from an OCI registry.",
        "image remove": "Remove an image.",
    },
    "Sign in to a server": {
        "login": "Sign in to a server with a browser.",
        "logout": "Sign out of the current server.",
        "whoami": "Show who you are at the current server.",
        "context list": "List the servers that you are signed in to.",
        "context remove": "Forget a server, without signing out there.",
        "context show": "Show a context.",
        "context use": "Choose the server that commands speak to.",
    },
    "See": {
        "status": "Show the state of the service on one screen.",
        "top": "Watch the jobs that run and those that wait.",
        "queue": "List the jobs that wait for a VM, with the reason.",
        "lease kill": "End VMs at once.",
        "lease list": "List the leased VMs.",
        "logs": "Show the service's own log.",
        "audit": "List who changed what, when, and from where.",
    },
    "Run": {
        "serve": "Run the service until a signal stops it.",
        "console close": "End every session of the owner in the console.",
        "console link": "Print a link to the pages of the host's owner.",
        "drain": "Start no more jobs on this host.",
        "resume": "Start jobs on this host again.",
        "cache clear": "Empty the cache.",
        "cache list": "List the cached disks.",
        "cache stats": "Show the size of the cache and its hits.",
        "retention run": "Remove expired logs, artifacts and audit entries now.",
        "retention confirm": "Let retention go on after the clock was set.",
        "mail queue": "List the mails that wait, without their content.",
        "mail retry": "Try every mail that waits again at once.",
        "mail test": "Send a test mail, and say what each step did.",
        "claim": "Serve a copied state directory.",
        "backup": "Save everything but VM disks in one file.",
        "restore": "Restore a state directory from a backup.",
    },
    "People and money": {
        "user add": "Add a user with an organization and an API key.",
        "user link": "Print a link to sign in.",
        "user list": "List the users.",
        "user remove": "Close a user's account.",
        "org key": "Show the deploy key of an organization.",
        "org rotate-key": "Make a new deploy key for an organization.",
        "org create": "Create an organization.",
        "org list": "List the organizations.",
        "org set": "Change an organization's settings.",
        "machine add": "Make an account for a program.",
        "machine list": "List an organization's machine accounts.",
        "machine remove": "Remove a machine account and its keys.",
        "member add": "Make a user a member of an organization.",
        "member list": "List who belongs to an organization.",
        "member remove": "Remove a member from an organization.",
        "member set": "Change the role of a member.",
        "invite accept": "Accept an invite to an organization.",
        "invite create": "Invite a person to an organization.",
        "invite list": "List the invites to an organization.",
        "invite revoke": "Revoke an invite.",
        "token create": "Make an API key or a session.",
        "token list": "List a user's tokens.",
        "token revoke": "Revoke a token.",
        "coupon create": "Make a coupon.",
        "coupon disable": "Let a coupon expire at once.",
        "coupon list": "List the coupons.",
        "ledger export": "Print an organization's whole ledger.",
        "ledger grant": "Give an organization credit.",
        "ledger list": "List the newest entries of a ledger.",
        "ledger refund": "Refund an organization.",
        "ledger verify": "Check that balances, debits and payments are correct.",
        "usage": "Show the VM time of an organization, and its cost.",
    },
    "Projects": {
        "run": "Run a pipeline on this machine, without a service.",
        "lint": "Check the pipelines of a tree, and show their steps.",
        "new": "Write the first pipeline of a tree.",
        "convert": "Convert files of GitLab CI and GitHub Actions.",
        "submit": "Run a pipeline over a tree and follow it.",
        "render": "Print the pipeline of a tree as v0 IR.",
    },
    "Pipelines and repositories": {
        "pipeline create": "Create a pipeline.",
        "pipeline delete": "Delete a pipeline with its builds.",
        "pipeline edit": "Change a pipeline's settings.",
        "pipeline list": "List an organization's pipelines.",
        "pipeline show": "Show a pipeline.",
        "repo connect": "Build what is pushed to a git repository.",
        "repo edit": "Change how a repository is fetched and packed.",
        "repo hook": "Print a hook for the server of a repository.",
        "repo key": "Show the deploy key of a repository.",
        "repo list": "List the connected repositories.",
        "repo remove": "Build no more pushes to a repository.",
        "repo rotate-key": "Make a new deploy key for a repository.",
        "repo show": "Show a repository and what came of its last pushes.",
        "repo trust": "Trust the key that the server of a repository has now.",
        "schedule add": "Build a pipeline at certain times.",
        "schedule list": "List a pipeline's schedules.",
        "schedule remove": "Remove a schedule.",
        "schedule set": "Change, enable or disable a schedule.",
        "merge-queue add": "Queue a branch or pull request to be merged.",
        "merge-queue list": "List what is merged next, and what ended.",
        "merge-queue remove": "Remove an entry from a merge queue.",
        "environment create": "Make an environment that jobs deploy to.",
        "environment history": "List what was deployed to an environment.",
        "environment list": "List an organization's environments.",
        "environment remove": "Remove an environment.",
        "environment rollback": "Deploy again what was in an environment before.",
        "environment set": "Change an environment.",
        "environment show": "Show an environment and what is there.",
        "secret limit": "Limit a secret to some builds.",
        "secret list": "List the names of secrets.",
        "secret remove": "Remove a secret.",
        "secret set": "Set a secret to the text on stdin.",
        "registry list": "List the logins at registries of images.",
        "registry login": "Store a login at a registry of images.",
        "registry logout": "Remove a login at a registry of images.",
        "notify add": "Tell the ends of builds by e-mail, webhook or Slack.",
        "notify deliveries": "List what was sent, and the answers.",
        "notify list": "List a pipeline's notifications.",
        "notify redeliver": "Send a delivery again.",
        "notify remove": "Remove a notification.",
        "notify rotate": "Give a webhook a new secret.",
        "notify set": "Change, enable or disable a notification.",
        "notify test": "Send a test to a notification.",
        "webhook list": "List the pushes that hosts reported.",
        "webhook redeliver": "Process a report of a push again.",
        "webhook show": "Show a report of a push as it came.",
    },
    "Builds": {
        "build annotations": "List the remarks of a build's jobs on lines in files.",
        "build approve": "Let a build of a fork's pull request run.",
        "build cancel": "Cancel a build.",
        "build coverage": "Show the coverage of a build and its change.",
        "build force-finish": "End a build by hand, as a last resort.",
        "build culprit": "Show the commit that broke a build.",
        "build list": "List a pipeline's builds.",
        "build logs": "Show the logs of a build's jobs.",
        "build open": "Open the page of a build in a browser.",
        "build outputs": "List the variables that a build's jobs give.",
        "build rebuild": "Build a build again, as a new one.",
        "build retry": "Run again what did not pass in a build.",
        "build show": "Show a build and its jobs.",
        "build start": "Build a branch, tag, commit or pull request.",
        "build summaries": "Print the summaries of a build's jobs.",
        "build tests": "List the tests of a build.",
        "build watch": "Follow a build to its end.",
        "job approve": "Let a job deploy that waits for an approval.",
        "job files": "List a folder of the disk that a job has left.",
        "job get": "Get files of the disk that a job has left.",
        "job list": "List the jobs of a build.",
        "job reject": "Fail a job that waits for an approval.",
        "job retry": "Run a job of a finished build again.",
        "job show": "Show a job.",
        "artifact get": "Get files that a build's jobs kept.",
        "artifact list": "List the files that a build's jobs kept.",
        "artifact verify": "Verify which build made a file.",
        "test cancel": "Cancel a proof.",
        "test proofs": "List the proofs of a build, or of a test.",
        "test quarantine": "Let a test fail without failing builds, for some days.",
        "test quarantined": "List the tests in quarantine.",
        "test release": "End the quarantine of a test.",
        "test prove": "Run tests again and again, to know how often they pass.",
        "preview end": "End the preview of a job.",
        "preview list": "List the previews of a build's jobs.",
        "preview open": "Open the preview of a job in a browser.",
        "search": "Find pipelines, builds and people by words.",
        "debug": "Open a shell in a job's VM.",
        "shell": "Open a fork of a failed job's disk.",
        "mcp": "Serve coding agents.",
    },
}
"""The lines of the help, in the order in which a newcomer needs the commands.

They are here so that the help imports no command; a test checks that every command has one.
"""

_PACKAGES = {
    "Set up": "setup",
    "Sign in to a server": "servers",
    "See": "observation",
    "Run": "operation",
    "People and money": "accounts",
    "Projects": "projects",
    "Pipelines and repositories": "pipelines",
    "Builds": "builds",
}
"""The package of the commands below each heading."""

_MODULES = {"uninstall": "install", "resume": "drain", "restore": "backup", "logout": "login"}
"""Commands that share a module with their counterpart; the others have a module of their own name."""


def lines() -> dict[str, str]:
    """Return the line of every command by its words."""
    return {words: text for texts in HEADINGS.values() for words, text in texts.items()}


class Catalog(Mapping[str, "click.Command"]):
    """The commands by name, imported on access: imports take most of a small command's time."""

    def __getitem__(self, name: str) -> click.Command:
        module = f"ci_daemon.command.{self._packages()[name]}.{_MODULES.get(name, name).replace('-', '_')}"
        command: click.Command = getattr(import_module(module), name.replace("-", "_"))
        return command

    def __iter__(self) -> Iterator[str]:
        return iter(self._packages())

    def __len__(self) -> int:
        return len(self._packages())

    @staticmethod
    def _packages() -> Mapping[str, str]:
        """Return the package of each command."""
        return {words.partition(" ")[0]: _PACKAGES[heading] for heading, texts in HEADINGS.items() for words in texts}
