"""A real browser for the tests: Chromium, driven by playwright; skipped where there is none, unless it is required."""

import json
import os
import re
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[2]


def data_of(page: str) -> dict[str, Any]:
    """What a page's script draws."""
    found = re.search(r'<script type="application/json" id="data">(.*?)</script>', page, re.DOTALL)
    assert found
    return json.loads(found[1])


def missing(reason: str) -> None:
    (pytest.fail if os.environ.get("CROSSPROP_REQUIRE_BROWSER") == "1" else pytest.skip)(f"browser test: {reason}")


@pytest.fixture(scope="session")
def axe() -> Callable[[Any], list[str]]:
    """`axe(page)`: the serious and critical violations that axe-core finds, each with the elements that have it.

    axe.min.js is in node_modules (npm install --no-save axe-core), or where CROSSPROP_AXE says.
    """
    path = Path(os.environ.get("CROSSPROP_AXE", ROOT / "node_modules" / "axe-core" / "axe.min.js"))
    if not path.exists():
        missing(f"axe-core is not installed (npm install --no-save axe-core): there is no {path.name}")
    source = path.read_text()

    def violations(page: Any) -> list[str]:
        page.evaluate(source)
        found = page.evaluate("axe.run(document, {resultTypes: ['violations']}).then((found) => found.violations)")
        return [
            f"{each['id']}: {[node['target'] for node in each['nodes']]}"
            for each in found
            if each["impact"] in ("serious", "critical")
        ]

    return violations


@pytest.fixture(scope="session")
def chromium() -> Iterator[Any]:
    found = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
    if found is None:
        missing("no chromium, chromium-browser or google-chrome on the path")
    try:
        from playwright.sync_api import sync_playwright
    except ImportError:
        missing("playwright is not installed (pip install playwright)")
        raise
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=found, args=["--no-sandbox"])
        yield browser
        browser.close()


def watched(context: Any, own: tuple[str, ...]) -> tuple[Any, list[str]]:
    """A new page, and what goes wrong in it: errors, warnings, dialogs, and requests to other than its `own` places."""
    page, wrong = context.new_page(), []
    page.on("console", lambda said: said.type in ("error", "warning") and wrong.append(said.text))
    page.on("pageerror", lambda problem: wrong.append(str(problem)))
    page.on("dialog", lambda dialog: (wrong.append(dialog.message), dialog.dismiss()))
    page.on("request", lambda request: request.url.startswith(own) or wrong.append(request.url))
    return page, wrong


def shot(page: Any, name: str) -> None:
    """A picture of the page, in the folder that CROSSPROP_SCREENSHOTS names."""
    if folder := os.environ.get("CROSSPROP_SCREENSHOTS"):
        page.screenshot(path=f"{folder}/{name}.png", full_page=True)


def broken_intervals(page: Any) -> list[str]:
    """Intervals such as [9, 13] on the page that a line break divides."""
    return page.evaluate(r"""() => {
        const broken = [], walk = document.createTreeWalker(document.querySelector("main"), NodeFilter.SHOW_TEXT);
        for (let text; (text = walk.nextNode());)
            for (const found of text.data.matchAll(/\[[−+\d., >]+\]/g)) {
                const range = new Range();
                range.setStart(text, found.index);
                range.setEnd(text, found.index + found[0].length);
                const lines = new Set([...range.getClientRects()].map((box) => Math.round(box.top)));
                if (lines.size > 1) broken.push(found[0]);
            }
        return broken;
    }""")


class Opened:
    """The report in a fresh page, with what went wrong in it."""

    def __init__(self, browser: Any, report: Path, width: int = 1280, scheme: str = "light", touch: bool = False):
        self.context = browser.new_context(
            viewport={"width": width, "height": 900}, color_scheme=scheme, has_touch=touch, is_mobile=touch
        )
        self.page, self.wrong = watched(self.context, ("file:", "data:", "blob:"))
        self.page.goto(report.as_uri())
        self.page.wait_for_selector("html[data-drawn=yes]", state="attached", timeout=20_000)

    def __enter__(self) -> "Opened":
        return self

    def __exit__(self, *_: Any) -> None:
        self.context.close()

    def shot(self, name: str) -> None:
        shot(self.page, f"report-{name}")


def violations(opened: Opened, axe: Any) -> list[str]:
    """The serious violations on the page, with all its folds open, in the light and in the dark."""
    opened.page.evaluate("document.querySelectorAll('details').forEach((each) => { each.open = true; })")
    found = []
    for scheme in ("light", "dark"):
        opened.page.emulate_media(color_scheme=scheme)
        opened.page.wait_for_timeout(300)
        found += [f"{scheme}: {each}" for each in axe(opened.page)]
    return found


LINES = ".scatterlayer path.js-line"
