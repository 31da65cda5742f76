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
myst_heading_anchors = 3
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
autodoc_typehints_format = "short"
autodoc_preserve_defaults = True
python_use_unqualified_type_names = True
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
    """Let our docstrings look as they stand: prose flows, what is laid out by blanks stays so.

    Those in numpy's style (sections underlined with hyphens) are left to napoleon."""
    if any(re.fullmatch(r"-{3,}", line.strip()) for line in lines):
        return
    written = []
    for paragraph in "\n".join(lines).strip("\n").split("\n\n"):
        block = [line for line in paragraph.split("\n") if line.strip()]
        if not block:
            continue
        laid_out = any(line.startswith("   ") for line in block) or any(
            re.search(r"\S {2,}\S", line) for line in block
        )
        if block[0].lstrip().startswith(">>>"):
            written += block
        elif laid_out:
            written += ["::", "", *("    " + line for line in block)]
        else:
            written += [as_prose(line) for line in block]
        written.append("")
    lines[:] = written


def as_prose(line):
    """Backticks mark code; nothing else is markup."""
    parts = line.split("`")
    if len(parts) % 2 == 0:  # a code that goes on in the next line: not worth the trouble
        return re.sub(r"([`*|_\\])", r"\\\1", line)
    return "".join(
        f"``{part}``" if inside else re.sub(r"([*|_\\])", r"\\\1", part)
        for inside, part in zip([False, True] * len(parts), parts, strict=False)
    )


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


def setup(app):
    app.connect("source-read", settle_contents)
    app.add_html_math_renderer("mathml", (write_inline_formula, None), (write_formula, None))
    app.connect("autodoc-process-docstring", plain_docstring, priority=400)  # before napoleon
