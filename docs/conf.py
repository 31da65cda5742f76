"""Sphinx settings of the manual: `make docs`, pages in docs/_build/html. Warnings are errors."""

import re
import sys
from importlib.util import find_spec
from pathlib import Path

from docutils.nodes import SkipNode
from docutils.utils.math.latex2mathml import tex2mathml

if find_spec("odmlib") is None:  # not installed: the sources beside this folder, built in place
    sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

import odmlib

project = "odmlib"
author = "the odmlib developers"
version = release = odmlib.__version__

extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx.ext.napoleon"]
myst_enable_extensions = ["dollarmath"]
myst_heading_anchors = 4
napoleon_google_docstring = False  # `name: meaning` is not a type
smartquotes = False  # they turn --lambda into a dash
default_role = "code"  # `name` in a docstring
exclude_patterns = ["_build"]

HERE = Path(__file__).resolve().parent
# pages about a part of the package that this installation may lack
NEEDS = {"api/sklearn": "odmlib.sklearn", "api/svmutil": "odmlib.svmutil"}
exclude_patterns += [page + ".md" for page, module in NEEDS.items() if find_spec(module) is None]

html_theme = "furo"
html_title = f"odmlib {release}"
html_static_path = ["_static"]
html_css_files = ["manual.css"]
html_math_renderer = "mathml"
html_copy_source = False
html_show_sphinx = False
html_show_copyright = False

autodoc_member_order = "bysource"
autodoc_typehints = "none"  # the pages say it in words
autodoc_preserve_defaults = False  # train has a signature of its own, which the source does not show
maximum_signature_line_length = 80


# ---------------------------------------- formulas: MathML, which needs no script and no network


def write_formula(translator, node):
    translator.body.append(f'<div class="formula">{tex2mathml(node.astext(), as_block=True)}</div>')
    raise SkipNode


def write_inline_formula(translator, node):
    translator.body.append(tex2mathml(node.astext()))
    raise SkipNode


# ---------------------------------------- docstrings: plain text, which Sphinx takes for its markup


def plain_docstring(app, what, name, thing, options, lines):
    """Make our docstrings look as they read: prose flows, names with what they mean become a list, and what
    else is laid out by blanks stays so. Sections in numpy's style (underlined) are left to napoleon."""
    if any(re.fullmatch(r"-{3,}", line.strip()) for line in lines):
        lines[:] = [line if ">>>" in line else as_entry(line) for line in lines]
        return
    written = []
    for paragraph in "\n".join(lines).strip("\n").split("\n\n"):
        block = [line for line in paragraph.split("\n") if line.strip()]
        if not block:
            continue
        if block[0].lstrip().startswith(">>>"):
            written += block
        elif not any(re.search(r"^  |^\w+ : |\S {2,}\S", line) for line in block):
            written += as_prose("\n".join(block)).split("\n")
        else:
            written += as_list(block) or [".. code-block:: text", "", *("    " + line for line in block)]
        written.append("")
    lines[:] = written


def as_prose(text):
    """Backticks mark code; nothing else is markup."""
    parts = text.split("`")
    if len(parts) % 2 == 0:
        return re.sub(r"([`*|_\\])", r"\\\1", text)
    return "".join(
        f"``{part}``" if place % 2 else re.sub(r"([*|_\\])", r"\\\1", part)
        for place, part in enumerate(parts)
    )


def as_entry(line):
    """A line of a section in numpy's style: napoleon itself takes care of the name before ` : `."""
    name, colon, meaning = line.partition(" : ")
    return name + colon + as_prose(meaning) if re.fullmatch(r" *[\w, *]+", name) and colon else as_prose(line)


def as_list(block):
    """Lines `name: meaning` or `name   meaning`, behind a sentence or none, as a list; None for others."""
    sentence, items = [], []
    for line in block:
        found = re.fullmatch(r"( *)([A-Za-z_]\w*)(?: ?: | {2,})(\S.*)", line)
        depth = len(line) - len(line.lstrip())
        if found and (not items or depth == items[0][0]):
            items.append([depth, found[2], found[3]])
        elif items and depth > items[0][0]:
            items[-1][2] += " " + line.strip()
        elif not items and not depth:
            sentence.append(line)
        else:
            return None
    return items and [
        *as_prose("\n".join(sentence)).split("\n"),
        "",
        *(f"- ``{name}``: {as_prose(meaning)}" for _, name, meaning in items),
    ]


# ---------------------------------------- the table of contents: each part brings its own page


def settle_contents(app, docname, source):
    """Leave pages that are not there out of the first page's lists, and put those nobody listed where it says
    OTHER PAGES."""
    if docname != "index":
        return
    there = {page.relative_to(HERE).with_suffix("").as_posix() for page in HERE.rglob("*.md")}
    there -= {page.removesuffix(".md") for page in exclude_patterns}
    lines = source[0].splitlines()
    listed = {line for line in lines if re.fullmatch(r"[\w/-]+", line)}
    others = sorted(page for page in there - listed - {"index"} if not page.startswith("_build/"))
    lines = [line for line in lines if line not in listed or line in there]
    source[0] = "\n".join(lines).replace("OTHER PAGES", "\n".join(others))


def name_outside_pages(app, docname, source):
    """Of links to Markdown outside this folder, which are good in the repository, only the text stays."""

    def settled(found):
        target = (HERE / docname).parent / found[2]
        return found[0] if target.resolve().is_relative_to(HERE) else found[1]

    source[0] = re.sub(r"\[([^\]]+)\]\((?!\w+:)([^)#\s]+\.md)(?:#[^)]*)?\)", settled, source[0])


def setup(app):
    app.connect("source-read", name_outside_pages)
    app.connect("source-read", settle_contents)
    app.add_html_math_renderer("mathml", (write_inline_formula, None), (write_formula, None))
    app.connect("autodoc-process-docstring", plain_docstring, priority=400)  # before napoleon
