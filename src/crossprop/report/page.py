"""One page, which needs nothing but a browser: its text, its numbers, and the library that draws them in one file."""

import base64
import hashlib
import json
from collections.abc import Sequence
from html import escape
from importlib.resources import files
from pathlib import Path
from string import Template
from typing import Any

from crossprop._files import atomic_write


def write_page(
    path: Path,
    *,
    title: str,
    contents: Sequence[tuple[str, str]],
    intro: str,
    body: Sequence[str],
    data: Any,
    banner: str = "",
) -> None:
    """Writes a page to `path`: what `page.js` draws is in `data`; of the rest only `title` and `contents`, the anchors
    and names of its sections, are not HTML."""
    from plotly.offline import get_plotlyjs

    library, script = get_plotlyjs(), _resource("page.js")
    page = Template(_resource("page.html")).substitute(
        policy=" ".join(_allowance(text) for text in (library, script)),
        style=_resource("page.css"),
        title=escape(title),
        contents="\n".join(f'<li><a href="#{escape(name)}">{escape(entry)}</a></li>' for name, entry in contents),
        banner=banner,
        intro=intro,
        body="\n".join(body),
        data=_embedded(data),
        library=library,
        script=script,
    )
    with atomic_write(Path(path)) as scratch:
        scratch.write_text(page, encoding="utf-8", newline="\n")


def section(name: str, title: str, *content: str) -> str:
    inside = "\n".join(content)
    return f'<section>\n<h2 id="{escape(name)}">{escape(title)}</h2>\n{inside}\n</section>'


def _resource(name: str) -> str:
    return (files("crossprop.report") / name).read_text(encoding="utf-8")


def _allowance(script: str) -> str:
    """The word in a content security policy by which this script runs, and no other on the page."""
    return f"'sha256-{base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()}'"


def _embedded(data: Any) -> str:
    """JSON that no text in it can end: inside a script element only `<` could."""
    return json.dumps(data, allow_nan=False, separators=(",", ":")).replace("<", "\\u003c")
