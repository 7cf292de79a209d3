"""`make docs`: the site is built without a warning, opens from disk, asks nothing of a server, and can be searched."""

import os
import re
import shutil
import subprocess
import sys
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote

import gallery
import pytest

ROOT = Path(__file__).parent.parent
PARTS = ["docs", "examples", "src", "tools", "mkdocs.yml", "CHANGELOG.md"]


@pytest.fixture(scope="module")
def site(made_once):
    """The site, built from a copy with empty interactive pages."""

    def build(folder: Path) -> None:
        source = folder / "source"
        for part in PARTS:
            copy = shutil.copytree if (ROOT / part).is_dir() else shutil.copyfile
            source.mkdir(exist_ok=True)
            copy(ROOT / part, source / part)
        (source / "docs" / "interactive").mkdir(exist_ok=True)
        for name in gallery.PAGES:
            (source / "docs" / "interactive" / f"{name}.html").write_text("<!doctype html><title>stub</title>")
        command = [sys.executable, "-m", "zensical", "build", "--clean", "--strict"]
        environment = os.environ | {"PYTHONPATH": str(source / "tools")}
        done = subprocess.run(command, cwd=source, env=environment, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stdout + done.stderr

    return made_once("site", build) / "source" / "site"


class _Links(HTMLParser):
    def __init__(self, text: str):
        super().__init__()
        self.ids: set[str] = set()
        self.links: list[str] = []
        self.loaded: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        given = dict(attrs)
        self.ids |= {value for name in ("id", "name") if (value := given.get(name))}
        if tag == "a" and given.get("href"):
            self.links.append(given["href"])
        elif given.get("src") or (tag == "link" and given.get("rel") != "canonical" and given.get("href")):
            self.loaded.append(given.get("src") or given["href"])


def test_the_site_has_no_page_without_styles():
    """Links of 404.html begin at a server's root."""
    done = subprocess.run(["make", "--dry-run", "docs"], cwd=ROOT, capture_output=True, text=True, check=True)
    assert "rm -f site/404.html" in done.stdout


@pytest.mark.long
def test_no_link_of_the_site_is_broken_and_nothing_is_loaded_from_elsewhere(site):
    pages = {path: _Links(path.read_text()) for path in site.rglob("*.html") if path.name != "404.html"}
    assert len(pages) > 20
    for path, page in pages.items():
        assert not [url for url in page.loaded if re.match(r"(https?:)?//", url)], path
        for link in page.links:
            if re.match(r"(https?|mailto):", link):
                continue
            target, _, anchor = unquote(link).partition("#")
            found = (path.parent / target).resolve() if target else path
            assert found.exists(), f"{path.name}: {link}"
            if anchor and found in pages:
                assert anchor in pages[found].ids, f"{path.name}: {link}"


@pytest.mark.long
def test_reference_has_signatures_and_maths_that_browsers_draw(site):
    text = (site / "api" / "learners.html").read_text()
    words = re.sub(r"<[^>]*>", "", text)
    assert re.search(r"Crossprop\(\s*network,\s*step_size,\s*eta=0.0,", words)
    assert text.count('<math xmlns="http://www.w3.org/1998/Math/MathML" display="block"') >= 15
    assert "$" not in re.sub(r"<(script|pre|code)\b.*?</\1>", "", text, flags=re.DOTALL)
    assert "<mo><mrow>" not in text


@pytest.mark.long
@pytest.mark.parametrize(("width", "scheme"), [(1280, "light"), (1280, "dark"), (390, "light"), (390, "dark")])
def test_pages_have_no_serious_violation_of_accessibility(site, chromium, axe, width, scheme):
    context = chromium.new_context(viewport={"width": width, "height": 900}, color_scheme=scheme)
    page = context.new_page()
    for name in ("index.html", "concepts.html", "studies.html", "api/learners.html"):
        page.goto((site / name).as_uri())
        page.wait_for_load_state("load")
        assert axe(page) == [], name
    context.close()


@pytest.mark.long
@pytest.mark.parametrize(("width", "scheme"), [(1280, "light"), (390, "dark")])
def test_site_opens_from_disk_and_finds_what_is_searched(site, chromium, width, scheme):
    wrong: list[str] = []
    context = chromium.new_context(viewport={"width": width, "height": 900}, color_scheme=scheme)
    page = context.new_page()
    page.on("console", lambda said: said.type in ("error", "warning") and wrong.append(said.text))
    page.on("pageerror", lambda problem: wrong.append(str(problem)))
    page.on("request", lambda asked: asked.url.startswith(("file:", "data:", "blob:")) or wrong.append(asked.url))
    for name in ("concepts.html", "api/learners.html", "examples.html", "index.html"):
        page.goto((site / name).as_uri())
        assert page.evaluate("document.documentElement.scrollWidth") <= width, name
    page.locator("[data-md-component=search], .md-search__button, [for=__search]").first.wait_for(state="attached")
    page.keyboard.press("Control+k")
    box = page.locator("input[placeholder=Search]").last
    box.click()
    page.keyboard.type("foresight", delay=100)
    page.get_by_text("Foresight in a deep network").first.wait_for(timeout=20_000)
    assert box.input_value() == "foresight"
    if folder := os.environ.get("CROSSPROP_SCREENSHOTS"):
        page.screenshot(path=f"{folder}/docs-{width}-{scheme}.png")
    assert not wrong
    context.close()
