"""Pieces of the report page: its look, light and dark, wide and narrow; numbers for people; tables."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from html import escape
from typing import Any

SUPERSCRIPTS = str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹")

MOST_FACTS = 6  # beside each other

# text has a contrast of at least 4.5
STYLE = """
:root { color-scheme: light dark; --page: #fff; --ink: #222; --pale: #5f5f5f;
  --line: #8884; --soft: #f2f3f5; --good: #00694b; --bad: #a03d00; --link: #005a8e; }
@media (prefers-color-scheme: dark) {
  :root { --page: #16181c; --ink: #ddd; --pale: #a5a5a5; --soft: #22252b; --good: #52d3a8; --bad: #ff9f66;
    --link: #7cc4f5; }
  svg [stroke="#0072b2"] { stroke: #3d9be0; } svg [stroke="#555555"] { stroke: #aaa; }
  svg [fill="#555555"] { fill: #aaa; } svg :is(.key, circle)[fill="#0072b2"] { fill: #3d9be0; }
}
* { box-sizing: border-box; }
body { margin: 0 auto; padding: 1rem; max-width: 64rem; font: 1rem/1.5 system-ui, sans-serif;
  background: var(--page); color: var(--ink); }
h1 { font-size: 1.5rem; line-height: 1.25; margin: 0 0 .25rem; overflow-wrap: anywhere; }
h2 { font-size: 1.2rem; margin: 2.25rem 0 .5rem; padding-bottom: .2rem;
  border-bottom: 1px solid var(--line); }
h3 { font-size: 1rem; margin: 1rem 0 .25rem; }
p { margin: .5rem 0; overflow-wrap: anywhere; max-width: 46rem; }
a { color: var(--link); }
nav { margin: .75rem 0; display: flex; flex-wrap: wrap; gap: .25rem 1rem; }
.facts { display: grid; grid-template-columns: repeat(auto-fill, minmax(9.5rem, 1fr)); gap: .5rem;
  margin: .75rem 0; }
@media (min-width: 60rem) { .facts { grid-template-columns: repeat(var(--columns), 1fr); } }
.facts div { background: var(--soft); border-radius: .5rem; padding: .5rem .75rem; }
.facts dt { font-size: .85rem; }
.facts dd { margin: 0; font-size: 1.3rem; font-weight: 600; overflow-wrap: anywhere; }
.good { color: var(--good); } .bad { color: var(--bad); }
.scroll { overflow-x: auto; max-width: 100%; }
table { border-collapse: collapse; font-variant-numeric: tabular-nums; margin: .25rem 0 .75rem; }
caption { text-align: left; font-weight: 600; padding-bottom: .25rem; }
th, td { padding: .3rem .45rem; border-bottom: 1px solid var(--line); text-align: right;
  white-space: nowrap; }
th[scope=row], td:first-child, thead th:first-child { text-align: left; font-weight: 400; }
thead th, th[scope=row] { white-space: normal; vertical-align: bottom; }
.names thead th { min-width: 4.5rem; overflow-wrap: anywhere; }
.matrix td, .matrix thead th { text-align: center; padding: .25rem .45rem; }
.matrix th[scope=row] { position: sticky; left: 0; background: var(--page); font-weight: 600; }
.zero { color: var(--pale); }
.small { font-size: .875rem; color: var(--pale); }
.charts { display: grid; grid-template-columns: repeat(auto-fit, minmax(min(100%, 22rem), 1fr));
  gap: 1.25rem; }
.columns { display: grid; grid-template-columns: repeat(auto-fit, minmax(min(100%, 20rem), 1fr));
  gap: 0 2rem; }
svg { display: block; width: 100%; height: auto; max-width: 31rem; }
.large svg { max-width: 46rem; }
@media (max-width: 40rem) { .fine { display: none; } th, td { padding: .25rem; font-size: .8125rem; } }
details { margin: .5rem 0; } summary { cursor: pointer; color: var(--link); }
code { overflow-wrap: anywhere; font-size: .9em; }
"""


def facts(given: Iterable[tuple[str, str, str]]) -> str:
    boxes = [
        f'<div><dt>{escape(name)}</dt><dd class="{kind}">{escape(value)}</dd></div>'
        for name, value, kind in given
    ]
    lines = -(-len(boxes) // MOST_FACTS)
    columns = -(-len(boxes) // lines)  # no line of a wide page has a single box
    return f'<dl class="facts" style="--columns: {columns}">{"".join(boxes)}</dl>\n'


def table(head: Sequence[str], rows: Iterable[Sequence[str]], caption: str = "", kind: str = "") -> str:
    """An HTML table; the first cell of a row is its name."""
    words = f"<caption>{escape(caption)}</caption>" if caption else ""
    top = ""
    if head:
        cells = "".join(f'<th scope="col">{escape(text)}</th>' if text else "<td></td>" for text in head)
        top = f"<thead><tr>{cells}</tr></thead>"
    body = "".join(
        f'<tr><th scope="row">{escape(row[0])}</th>'
        + "".join(f"<td>{escape(text)}</td>" for text in row[1:])
        + "</tr>"
        for row in rows
    )
    look = f' class="{kind}"' if kind else ""
    content = f"<table{look}>{words}{top}<tbody>{body}</tbody></table>"
    return scrolling(caption or "table", content)


def scrolling(name: str, content: str) -> str:
    """A part that scrolls sideways by itself, also by the keyboard."""
    return f'<div class="scroll" tabindex="0" role="group" aria-label="{escape(name)}">{content}</div>\n'


def shown(value: Any, digits: int = 4) -> str:
    """A number for people.

    >>> [shown(value) for value in (None, 0.25, 1234567, 0.00012345, 3e22, 1.0)]
    ['unknown', '0.25', '1,234,567', '1.234 × 10⁻⁴', '3 × 10²²', '1']
    """
    if value is None or not math.isfinite(value):
        return "unknown"
    if value == int(value) and abs(value) < 1e9:
        return f"{int(value):,}"
    if 1e-3 <= abs(value) < 1e6:
        return f"{value:,.{max(0, digits - 1 - math.floor(math.log10(abs(value))))}f}".rstrip("0").rstrip(".")
    mantissa, _, power = f"{value:.{digits - 1}e}".partition("e")
    mantissa = mantissa.rstrip("0").rstrip(".") if "." in mantissa else mantissa
    return f"{mantissa} × 10{str(int(power)).translate(SUPERSCRIPTS)}"


def percent(part: float) -> str:
    """A part as percent with one digit, or two where it is needed.

    >>> [percent(part) for part in (0.5, 1.0, 0.9996, 0.97076, float("nan"))]
    ['50.0 %', '100 %', '99.96 %', '97.1 %', '-']
    """
    if not math.isfinite(part):
        return "-"
    if part == 1:
        return "100 %"
    near = 0 < part < 0.01 or 0.99 < part < 1
    return f"{100 * part:.{2 if near else 1}f} %"


def duration(seconds: float) -> str:
    """
    >>> [duration(value) for value in (0.01234, 3.21, 75.2, 7322.0)]
    ['12 ms', '3.21 s', '1 min 15 s', '2 h 2 min']
    """
    if seconds < 1:
        return f"{1000 * seconds:.2g} ms" if seconds < 0.1 else f"{seconds:.2f} s"
    if seconds < 60:
        return f"{seconds:.3g} s"
    minutes, rest = divmod(round(seconds), 60)
    return f"{minutes} min {rest} s" if minutes < 60 else f"{minutes // 60} h {minutes % 60} min"
