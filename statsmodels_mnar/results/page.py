"""HTML building blocks of a report: escaped text, tables with headers, embedded pictures."""

from __future__ import annotations

import base64
import io
import math
from collections.abc import Iterable
from html import escape
from typing import Any

import pandas as pd

_STYLE = """
:root { color-scheme: light; }
* { box-sizing: border-box; }
body { margin: 0 auto; max-width: 52rem; padding: 1rem 1.2rem 3rem; color: #1b1f24;
  background: #fff; font: 1rem/1.55 system-ui, "Segoe UI", Roboto, "Helvetica Neue", sans-serif;
  overflow-wrap: break-word; }
h1 { font-size: 1.6rem; line-height: 1.25; margin: 1rem 0 .3rem; }
h2 { font-size: 1.2rem; margin: 2.2rem 0 .6rem; padding-bottom: .2rem;
  border-bottom: 2px solid #d7dce2; }
.lead, figcaption, footer, .note { color: #57606a; }
.lead { margin: 0 0 1rem; }
ul.reading { list-style: none; padding: 0; margin: 0; }
ul.reading li { margin: .5rem 0; padding: .5rem .8rem; border-left: 4px solid #3b6ea5;
  background: #f4f7fa; }
ul.reading li.caution { border-left-color: #b35900; background: #fdf5ec; }
ul.reading li.caution::before { content: "Caution: "; font-weight: 600; }
.scroll { overflow-x: auto; margin: .8rem 0; }
table { border-collapse: collapse; font-size: .92rem; font-variant-numeric: tabular-nums; }
caption { text-align: left; font-weight: 600; padding-bottom: .25rem; }
th, td { padding: .25rem .75rem .25rem 0; text-align: right; white-space: nowrap; }
thead th { border-bottom: 1px solid #1b1f24; font-weight: 600; vertical-align: bottom; }
thead th:first-child { text-align: left; }
tbody tr { border-bottom: 1px solid #e4e8ec; }
tbody th { text-align: left; font-weight: 400; }
table.facts th, table.facts td { text-align: left; white-space: normal; vertical-align: top; }
figure { margin: 1.2rem 0; }
figure img { display: block; max-width: 100%; height: auto; }
figcaption { font-size: .92rem; margin-top: .3rem; }
pre { font-size: .78rem; line-height: 1.35; overflow-x: auto; background: #f6f8fa; padding: .8rem; }
summary { cursor: pointer; color: #3b6ea5; }
footer { margin-top: 2.5rem; font-size: .85rem; border-top: 1px solid #d7dce2; padding-top: .6rem; }
@media (max-width: 32rem) {
  table { font-size: .8rem; }
  th, td { padding-right: .5rem; }
  caption { max-width: calc(100vw - 2.4rem); }
  tbody th { white-space: normal; overflow-wrap: anywhere; min-width: 8rem; max-width: 9rem;
    position: sticky; left: 0; background: #fff; }
}
@media print {
  body { max-width: none; padding: 0; font-size: 10.5pt; }
  figure, li, tr, caption { break-inside: avoid; }
  h2, caption { break-after: avoid; }
  figure img { max-height: 9cm; width: auto; }
  .scroll, pre { overflow: visible; }
  pre { white-space: pre-wrap; }
}
"""

# Pictures are embedded and nothing else is loaded: the browser is told to refuse the rest.
_POLICY = "default-src 'none'; img-src data:; style-src 'unsafe-inline'"


def document(title: str, body: Iterable[str]) -> str:
    """A whole page, which is also well-formed XML.

    Examples
    --------
    >>> document("a < b", ["<p>text</p>"]).splitlines()[0]
    '<!DOCTYPE html>'
    """
    parts = "\n".join(body)
    return f"""<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8" />
<meta name="viewport" content="width=device-width, initial-scale=1" />
<meta http-equiv="Content-Security-Policy" content="{_POLICY}" />
<title>{escape(title)}</title>
<style>{_STYLE}</style>
</head>
<body>
<main>
{parts}
</main>
</body>
</html>
"""


def section(heading: str, *parts: str) -> str:
    name = "-".join("".join(c if c.isalnum() else " " for c in heading.lower()).split())
    inside = "\n".join(part for part in parts if part)
    return (
        f'<section aria-labelledby="{name}">\n<h2 id="{name}">{escape(heading)}</h2>\n{inside}\n'
        "</section>"
    )


def paragraph(text: str, kind: str | None = None) -> str:
    return f"<p{_class(kind)}>{escape(text)}</p>"


def listing(items: Iterable[tuple[str | None, str]], kind: str | None = None) -> str:
    """A list of (class, text)."""
    inside = "\n".join(f"<li{_class(each)}>{escape(text)}</li>" for each, text in items)
    return f"<ul{_class(kind)}>\n{inside}\n</ul>" if inside else ""


def table(frame: pd.DataFrame, caption: str) -> str:
    """A table whose columns and rows have headers; the index is the first column.

    Examples
    --------
    >>> frame = pd.DataFrame({"x": [0.5]}, index=["<b>"])
    >>> "&lt;b&gt;" in table(frame, "A caption")
    True
    """
    heads = "".join(f'<th scope="col">{escape(str(name))}</th>' for name in frame.columns)
    rows = "\n".join(
        f'<tr><th scope="row">{escape(_text(label))}</th>'
        + "".join(f"<td>{escape(_text(value))}</td>" for value in row)
        + "</tr>"
        for label, row in zip(frame.index, frame.itertuples(index=False), strict=True)
    )
    return (
        f"{_scroll(caption)}\n<table>\n<caption>{escape(caption)}</caption>\n"
        f'<thead><tr><th scope="col">{escape(str(frame.index.name or "variable"))}</th>{heads}'
        f"</tr></thead>\n<tbody>\n{rows}\n</tbody>\n</table>\n</div>"
    )


def facts(pairs: Iterable[tuple[str, str]], caption: str) -> str:
    """Return a table of names and their values."""
    rows = "\n".join(
        f'<tr><th scope="row">{escape(name)}</th><td>{escape(value)}</td></tr>'
        for name, value in pairs
    )
    return (
        f'{_scroll(caption)}\n<table class="facts">\n<caption>{escape(caption)}</caption>\n'
        f"<tbody>\n{rows}\n</tbody>\n</table>\n</div>"
    )


def figure(ax: Any, alt: str, caption: str) -> str:
    """The figure of matplotlib axes, embedded."""
    width, height = (round(96 * inches) for inches in ax.figure.get_size_inches())
    data = base64.b64encode(png(ax.figure, 160)).decode("ascii")
    return (
        f'<figure>\n<img src="data:image/png;base64,{data}" width="{width}" height="{height}" '
        f'alt="{escape(alt)}" />\n<figcaption>{escape(caption)}</figcaption>\n</figure>'
    )


def png(figure: Any, dpi: int) -> bytes:
    """A matplotlib figure as the content of a file."""
    picture = io.BytesIO()
    figure.savefig(picture, format="png", dpi=dpi, metadata={"Software": None})
    return picture.getvalue()


def preformatted(text: str) -> str:
    return f"<pre>{escape(text)}</pre>"


def folded(heading: str, body: str) -> str:
    """Return a section that is closed until the reader opens it."""
    return f"<details>\n<summary>{escape(heading)}</summary>\n{body}\n</details>"


def _scroll(label: str) -> str:
    """Begin a region in which a wide table scrolls by itself, with the keyboard too."""
    return f'<div class="scroll" role="region" tabindex="0" aria-label="{escape(label)}">'


def _class(kind: str | None) -> str:
    return f' class="{escape(kind)}"' if kind else ""


def number(value: float, digits: int = 4) -> str:
    """A number as it appears in a table, with a minus sign; empty where there is none."""
    if math.isnan(value):
        return ""
    text = f"{value:.{digits}f}" if abs(value) < 1e5 else f"{value:.5g}"
    return text.replace("-", "\N{MINUS SIGN}")


def _text(value: Any) -> str:
    return number(value) if isinstance(value, float) else str(value)
