"""The colours of a log in a real browser, which are read in both themes."""

from __future__ import annotations

from playwright.sync_api import Browser, Locator, expect

from tests.e2e.console.visitor import Visitor, visitor
from tests.e2e.daemon import Client, Pipeline
from tests.e2e.pipelines import one

LINES = {
    "npm": r"\033[37;40mnpm\033[0m \033[31;40mERR!\033[0m",
    "badges": r"\033[44;97mwhite on blue\033[0m \033[30;42mblack on green\033[0m \033[103;30mblack on yellow\033[0m",
    "inverse": r"\033[7minverse\033[0m \033[7;31minverse red\033[0m",
}
INDEXED = r"""for i in $(seq 0 255); do printf "\033[38;5;${i}m%d\033[0m \033[48;5;${i}m%d\033[0m " $i $i; done; echo"""


def color(where: Locator, name: str = "color") -> str:
    """Return a computed colour."""
    shown: str = where.evaluate("(each, name) => getComputedStyle(each)[name]", name)
    return shown


def open_log(ada: Visitor, client: Client, pipeline: Pipeline, *commands: str) -> None:
    """Run commands in a job, and open its log."""
    build = pipeline.build(one("; ".join(commands)))
    assert build.finish()["state"] == "passed", build.jobs()
    (job,) = build.jobs().values()
    ada.page.goto(f"{ada.url}/{client.org}/{build.path}/jobs/{job['id']}")
    expect(ada.page.locator(".line").first).to_be_visible()


def test_every_color_of_a_log_is_read_in_both_themes(browser: Browser, client: Client, pipeline: Pipeline):
    with visitor(browser, client, bypass_csp=True) as ada:
        open_log(ada, client, pipeline, *(f"printf '{line}\\n'" for line in LINES.values()), INDEXED)
        assert ada.barriers() == []


def test_inverse_text_swaps_its_colors(browser: Browser, client: Client, pipeline: Pipeline):
    with visitor(browser, client) as ada:
        open_log(ada, client, pipeline, r"printf '\033[31mred\033[0m \033[7;31minverse\033[0m \033[7mplain\033[0m\n'")
        inverse, plain = ada.page.get_by_text("inverse", exact=True), ada.page.get_by_text("plain", exact=True)
        red, green, blue = (int(each) for each in color(inverse, "backgroundColor")[4:-1].split(","))
        assert red > 2 * max(green, blue)
        assert color(plain, "backgroundColor") == color(ada.page.locator("body"))
        assert color(plain) == color(ada.page.locator(".log-frame"), "backgroundColor")
