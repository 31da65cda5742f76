"""Examples in docstrings, in README.md and in the manual run and print what they say; its tables are true."""

import doctest
import importlib
import itertools
import os
import pkgutil
import re
import subprocess
import sys
from pathlib import Path

import pytest

import odmlib
from odmlib.cli import check, compress, convert, easy, grid, info, plot, predict, scale, subset, train
from odmlib.errors import ParameterError
from odmlib.model.text_writer import EXTRAS, LISTS
from odmlib.names import CONVERTED, KERNELS, MACHINES, STATUSES
from odmlib.options import TrainOptions, option_fields
from odmlib.parameters import MACHINE_PARAMETERS

from .doc_blocks import Block, blocks_of, built, commands_of, package_folder, pages, run_page, tool_folder

ROOT = Path(__file__).resolve().parent.parent
DOCS = ROOT / "docs"
RUN_ELSEWHERE = {"spark.md": "tests/spark/test_page.py"}  # with a session that they share
MODULES = sorted(
    module.name
    for module in pkgutil.walk_packages(odmlib.__path__, "odmlib.")
    if ".cli." not in module.name or not module.name.endswith("__main__")
)


@pytest.mark.parametrize("name", ["odmlib", *MODULES])
def test_docstrings(name, monkeypatch):
    monkeypatch.chdir(ROOT)
    if name.startswith("odmlib.spark"):
        pytest.importorskip("pyspark", reason="pyspark is not installed")
    module = importlib.import_module(name)
    result = doctest.testmod(module, optionflags=doctest.NORMALIZE_WHITESPACE)
    assert result.failed == 0


def test_some_docstrings_have_examples():
    finder = doctest.DocTestFinder()
    modules = [importlib.import_module(name) for name in MODULES if not name.startswith("odmlib.spark")]
    found = [test for module in modules for test in finder.find(module) if test.examples]
    assert len(found) >= 5


# ---------------------------------------------------------------------------------------- pages


def test_every_page_is_seen():
    names = {page.relative_to(ROOT).as_posix() for page in pages()}
    assert {"README.md", "docs/index.md", "docs/machines/odm.md", "docs/internals/engines.md"} <= names
    assert not any("_build" in name for name in names)


@pytest.mark.parametrize(
    "page",
    [page for page in pages() if blocks_of(page) and page.name not in RUN_ELSEWHERE],
    ids=lambda page: page.stem,
)
def test_page_runs(page, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    # the tools of the tests also for Python blocks that start them
    monkeypatch.setenv("PATH", f"{tool_folder()}:{os.environ['PATH']}")
    monkeypatch.setenv("PYTHONPATH", package_folder())
    names = run_page(page, tmp_path)
    if page.name == "README.md":
        assert names["again"].report["status"] == "converged"


def test_the_reference_has_every_public_name():
    text = (ROOT / "docs/api/index.md").read_text()
    missing = [name for name in dir(odmlib) if name[0] != "_" and f":: odmlib.{name}" not in text]
    assert missing == []


def test_the_page_of_formats_has_every_key_of_a_model_file():
    text = (DOCS / "internals/formats.md").read_text()
    keys = [*EXTRAS, *(key for pair in LISTS for key in pair), *STATUSES, CONVERTED, "outputs", "columns"]
    assert [key for key in keys if f"`{key}`" not in text] == []


def test_few_blocks_are_not_run():
    blocks = [block for page in pages() for block in blocks_of(page)]
    resting = [block.place for block in blocks if not block.runs]
    assert len(blocks) >= 30
    assert len(resting) <= len(blocks) / 10, resting


def test_a_false_page_fails(tmp_path, monkeypatch):
    """The runner itself: wrong output, a failing command and an exception are seen; marked blocks rest."""
    monkeypatch.chdir(tmp_path)

    def run(text: str) -> None:
        page = tmp_path / "page.md"
        page.write_text(text)
        (tmp_path / "data").unlink(missing_ok=True)
        run_page(page, tmp_path)

    run("```console\n$ echo one two\none ...\n$ echo hidden\n```\n")
    run("```python\nx = 1\n```\n\n```python\nassert x == 1\n```\n")
    run("```pycon\n>>> 1 + 1\n2\n```\n")
    run("<!-- not run: it fails -->\n```sh\nfalse\n```\n")
    run("```console\n$ odm-train -x; echo code $?\nodm-train: ...\ncode 2\n```\n")
    for wrong in (
        "```console\n$ echo one\ntwo\n```\n",
        "```console\n$ false\n```\n",
        "```sh\nfalse\ntrue\n```\n",
        "```python\nassert False\n```\n",
        "```pycon\n>>> 1 + 1\n3\n```\n",
        "```console\nno prompt\n```\n",
    ):
        with pytest.raises(AssertionError):
            run(wrong)


def test_commands_go_on_after_a_backslash():
    block = Block("page", 1, "console", "$ echo a \\\n    b\na b\n$ true\n", True)
    assert list(commands_of(block)) == [("echo a \\\n    b\n", "a b\n"), ("true\n", "")]


@pytest.mark.parametrize("page", [*pages(), ROOT / "CONTRIBUTING.md"], ids=lambda page: page.stem)
def test_links_lead_to_files(page):
    for target in re.findall(r"\]\(([^)\s]+)\)", page.read_text(encoding="utf-8")):
        if not re.match(r"\w+://|#|mailto:", target):
            file, _, place = target.partition("#")
            assert (page.parent / file).exists(), f"{page.name} links to {target}"
            assert not place or place in headings_of(page.parent / file), f"{page.name} links to {target}"
        elif target.startswith("#"):
            assert target[1:] in headings_of(page), f"{page.name} links to {target}"


def headings_of(page: Path) -> set[str]:
    """The places on a page that links can lead to, as GitHub names them."""
    titles = re.findall(r"^#+ (.*)$", page.read_text(encoding="utf-8"), flags=re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", title.lower()).strip().replace(" ", "-") for title in titles}


def test_manual_builds_without_warnings(tmp_path):
    for module in ("sphinx", "myst_parser", "furo"):
        pytest.importorskip(module)
    result = subprocess.run(
        [sys.executable, "-m", "sphinx", "-E", "-W", "--keep-going", "-q", "-d", str(tmp_path / "trees"),
         str(DOCS), str(tmp_path / "html")],
        capture_output=True,
        text=True,
        env=os.environ | {"PYTHONPATH": package_folder()},
        timeout=300,
        check=False,
    )  # fmt: skip
    assert result.returncode == 0, result.stderr
    for page in DOCS.rglob("*.md"):
        if not built(page) and page.parent.name != "api":  # some of those need parts that may be missing
            made = (tmp_path / "html" / page.relative_to(DOCS)).with_suffix(".html")
            assert made.exists(), f"{page} is in no table of contents"
    first = (tmp_path / "html" / "machines" / "odm.html").read_text(encoding="utf-8")
    assert "<math" in first
    assert "merror" not in first


# ---------------------------------------------------------------------------------------- tables


def table_rows(page: Path, first: str, with_head: bool = False) -> list[list[str]]:
    """Cells of the tables whose head starts with the column `first`."""
    rows, inside = [], False
    for line in page.read_text(encoding="utf-8").splitlines():
        cells = [cell.strip().replace(r"\|", "|") for cell in re.split(r"(?<!\\)\|", line)[1:-1]]
        if not cells:
            inside = False
        elif cells[0] == first:
            inside = True
            rows += [cells] if with_head else []
        elif inside and set("".join(cells)) - set("-: "):
            rows.append(cells)
    return rows


def codes(cell: str) -> list[str]:
    return re.findall(r"`([^`]+)`", cell)


OPTION_ROWS = [row for row in table_rows(DOCS / "parameters.md", "flag") if len(row) == 5]


def row_of(option) -> list[str]:
    """The row of the parameter table that has the option's Python name."""
    found = rows_of(option)
    assert len(found) == 1, f"docs/parameters.md has {len(found)} rows for {option.name}"
    return found[0]


def rows_of(option) -> list[list[str]]:
    return [row for row in OPTION_ROWS if option.name in codes(row[1])]


@pytest.mark.parametrize("option", option_fields(), ids=lambda option: option.name)
def test_parameter_table_names_every_option(option):
    row = row_of(option)
    assert len(row) == 5, row
    place = codes(row[1]).index(option.name)
    if option.metadata["flags"]:
        flags = [flag.split()[0] for flag in codes(row[0])]
        assert flags[place] == option.metadata["flags"][0], row


@pytest.mark.parametrize(
    "option",
    [option for option in option_fields() if option.default is not None],
    ids=lambda option: option.name,
)
def test_parameter_table_has_the_defaults(option):
    row = row_of(option)
    names, default = codes(row[1]), row[4]
    stated = default.split(", ")[names.index(option.name)] if len(names) > 1 else default
    assert same(stated.partition(";")[0].strip("` "), option.default), row


def same(text: str, value: object) -> bool:
    if isinstance(value, str):
        return text == value
    return re.fullmatch(r"[-+.\deE]+", text) is not None and float(text) == value


# `[0, 1)`, `>= 1`, `any`: one for each name of a row, or one for all of them
RANGE = re.compile(
    r"(?P<low>[\[(])(?P<from>[-\d.]+), (?P<to>[-\d.]+)(?P<high>[\])])"
    r"|(?P<sign>>=|>) (?P<least>[-\d.]+)|(?P<any>any)"
)


def range_of(option) -> re.Match | None:
    """What the table says about the option's numbers, if anything."""
    if len(rows_of(option)) != 1:  # another test says so
        return None
    row = row_of(option)
    ranges, names = list(RANGE.finditer(row[3])), codes(row[1])
    if len(ranges) == len(names):
        return ranges[names.index(option.name)]
    return ranges[0] if len(ranges) == 1 and not isinstance(option.default, str) else None


def accepts(option, value: float) -> bool:
    """Whether the value is taken, by the first machine (and its linear solver) that the row begins with."""
    found = re.match(r"`(\w+)`(?:, `\w+`)*(?:, solver `(\w+)`)?:", row_of(option)[2])
    machine = {"machine": found[1]} if found else {}
    if found and found[2]:
        machine |= {"kernel": "linear", "solver": found[2]}
    try:
        TrainOptions(**machine, **{option.name: int(value) if float(value).is_integer() else value})
    except ParameterError:
        return False
    return True


WITH_RANGES = [
    option
    for option in option_fields()
    if range_of(option) and option.name not in ("class_weight", "sample_weight")  # of other types
]


@pytest.mark.parametrize("option", WITH_RANGES, ids=lambda option: option.name)
def test_parameter_table_has_the_ranges(option):
    """Both ends of every range in the table, and a little beyond, are taken or refused as it says."""
    found, row = range_of(option), row_of(option)
    if found["any"]:
        assert all(accepts(option, value) for value in (-1e3, 0, 1e3)), row
    elif found["sign"]:
        low = float(found["least"])
        assert accepts(option, low) == (found["sign"] == ">="), row
        assert not accepts(option, low - 2), row  # -1 may mean no limit
        assert accepts(option, low + 1), row
    else:
        low, high = float(found["from"]), float(found["to"])
        assert accepts(option, low) == (found["low"] == "["), row
        assert accepts(option, high) == (found["high"] == "]"), row
        assert not accepts(option, low - 1e-9), row
        assert not accepts(option, high + 1e-9), row
        assert accepts(option, (low + high) / 2), row


def test_most_numbers_have_a_range():
    assert {"C", "nu", "theta", "gamma", "tol", "degree", "coef0", "seed"} <= {o.name for o in WITH_RANGES}


def test_parameter_table_has_no_flags_of_its_own():
    known = set(train.make_parser()._words)
    for flag in itertools.chain.from_iterable(codes(row[0]) for row in OPTION_ROWS):
        assert re.sub(r"LABEL$", "", flag.split()[0]) in known, f"odm-train has no {flag}"


def test_tables_have_every_machine_and_kernel():
    for flag, names in (("-s", MACHINES), ("-t", KERNELS)):
        everything = MACHINES if flag == "-s" else KERNELS
        rows = {
            (*codes(row[0]), *codes(row[1]))
            for row in table_rows(DOCS / "parameters.md", "flag")
            if len(row) == 3
        }
        for name in names:
            assert (f"{flag} {everything.index(name)}", name) in rows, f"docs/parameters.md: {name}"
    first = (ROOT / "README.md").read_text()
    assert all(f"| `-s {MACHINES.index(name)}` | `{name}` |" in first for name in MACHINES)


def test_table_of_machines_and_their_parameters():
    head, *rows = table_rows(DOCS / "parameters.md", "option", with_head=True)
    cells = {
        (name, machine): cell
        for row in rows
        for name in codes(row[0])
        for machine, cell in zip(head, row, strict=True)
    }
    assert {"svm", "odml", "odm", "mcodm", "kmomd"} <= set(head)
    for machine, names in MACHINE_PARAMETERS.items():
        for name in names if machine in head else ():
            assert cells["lambda_" if name == "lambda" else name, machine], (machine, name)


def flags_on(rows: list[list[str]]) -> list[str]:
    """Flags named in the first two columns, without what stands for their values."""
    return [
        re.sub(r"LABEL$", "", code.split()[0])
        for row in rows
        for cell in row[:2]
        for code in codes(cell)
        if code.startswith("-")
    ]


def parsers_of(tool) -> list:
    """One parser, or one for each kind of picture."""
    return [kind[0]() for kind in plot.KINDS.values()] if tool is plot else [tool.make_parser()]


@pytest.mark.parametrize(
    "tool",
    [train, predict, scale, grid, easy, check, subset, plot, info, compress, convert],
    ids=lambda tool: tool.PROGRAM,
)
def test_page_of_a_tool_has_every_flag(tool):
    """The options that say what to train may stand in the table of parameters alone."""
    named = flags_on(table_rows(DOCS / "commands" / f"{tool.PROGRAM}.md", "flag"))
    assert len(named) == len(set(named))
    parsers = parsers_of(tool)
    assert set(named) <= {word for parser in parsers for word in parser._words}
    trains = tool in (train, grid, easy, plot)
    elsewhere = flags_on(OPTION_ROWS) if trains else []
    if tool is plot:  # `accuracy` takes all flags of odm-train
        elsewhere += flags_on(table_rows(DOCS / "commands" / "odm-train.md", "flag"))
    for action in (action for parser in parsers for action in parser._actions):
        if action.option_strings and not set(action.option_strings) & set(elsewhere):
            assert set(action.option_strings) <= set(named), f"{tool.PROGRAM}.md: {action.option_strings}"
