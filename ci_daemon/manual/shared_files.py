"""The places of the files that are made from the help, below a folder such as /usr/share."""

from __future__ import annotations

MANUAL_PAGE = "man/man1/ci-daemon.1"
SCRIPTS = {
    "bash": "bash-completion/completions/ci-daemon",
    "zsh": "zsh/site-functions/_ci-daemon",
    "fish": "fish/vendor_completions.d/ci-daemon.fish",
}
SHARED_FILES = (MANUAL_PAGE, *SCRIPTS.values())
