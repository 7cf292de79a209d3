r"""A Markdown extension that renders `$inline$` and `$$display$$` maths as MathML while the site is built.

Browsers draw MathML themselves, so the pages need no script and no font from elsewhere, and open from disk.
"""

import re
from typing import Any

from latex2mathml.converter import convert
from markdown import Markdown
from markdown.extensions import Extension
from markdown.inlinepatterns import InlineProcessor

DISPLAY = r"\$\$(.+?)\$\$"
INLINE = r"(?<![\\$\w])\$(?![\s$])([^$\n]*?(?:\n[^$\n]+?)*?)(?<![\s\\])\$(?![\w$])"
NESTED = re.compile(r"<mo><mrow><mo>([^<]+)</mo></mrow></mo><mo>&#x0003D;</mo>")
PRIORITY = 186  # above escapes (180), below code (190): `$` in code is left alone


class _Maths(InlineProcessor):
    def __init__(self, pattern: str, md: Markdown, display: str):
        super().__init__(pattern, md)
        self.compiled_re = re.compile(pattern, re.DOTALL)
        self.display = display

    def handleMatch(self, m: Any, data: str) -> tuple[Any, int, int]:
        # latex2mathml nests operators for \mathrel{+}=, which browsers refuse.
        rendered = NESTED.sub(r"<mo>\1=</mo>", convert(m[1], display=self.display))
        # Wide equations scroll, by keyboard too.
        rendered = rendered.replace('display="block"', 'display="block" tabindex="0"')
        return self.md.htmlStash.store(rendered), m.start(0), m.end(0)


class MathML(Extension):
    """Registers both patterns."""

    def extendMarkdown(self, md: Markdown) -> None:
        md.inlinePatterns.register(_Maths(DISPLAY, md, "block"), "display-maths", PRIORITY + 1)
        md.inlinePatterns.register(_Maths(INLINE, md, "inline"), "inline-maths", PRIORITY)


def makeExtension(**options: Any) -> MathML:
    return MathML(**options)
