"""Each kind of a stranger's bytes that the page about security names has tests of its bounds."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

CHECKOUT = Path(__file__).parents[2]


def test_each_kind_of_bytes_has_tests_of_its_bounds():
    page = (CHECKOUT / "docs" / "security.md").read_text()
    table = page.partition("| Bytes | Worked on | Bounds |\n|---|---|---|\n")[2].partition("\n\n")[0]
    kinds = [re.sub(r"\[([^]]*)\]\([^)]*\)", r"\1", row.split("|")[1].strip()) for row in table.splitlines()]
    tested = tomllib.loads(Path(__file__).with_name("strangers_bytes.toml").read_text())
    assert kinds == list(tested)
    for test in (each for tests in tested.values() for each in tests):
        path, _, name = test.partition("::")
        assert re.search(rf"^ *def {name}\(", (CHECKOUT / path).read_text(), re.MULTILINE), test
