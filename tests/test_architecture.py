"""The rooms of odmlib lie in layers: imports and cimports go down, never up and never in a circle.

Every import counts: inside functions too, and in .pyx, .pxd and .pyi files. Imports for the type checker
alone (`if TYPE_CHECKING`) must go down as well, but close no circle.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

ROOT = Path(__file__).parent.parent
PACKAGE = ROOT / "odmlib"

# From the bottom to the top, as docs/internals/architecture.md draws them. Rooms on one line may use each
# other as long as they form no circle. A module belongs to the longest name that fits.
LAYERS = [
    ["odmlib._version", "odmlib.errors"],
    ["odmlib.values", "odmlib.threads"],
    ["odmlib.machines.declarations"],
    ["odmlib.names", "odmlib.parameters", "odmlib.options"],
    ["odmlib._core"],
    ["odmlib.data"],
    ["odmlib.kernels"],
    ["odmlib.losses"],
    ["odmlib.solvers.linalg"],
    ["odmlib.solvers.control", "odmlib.solvers.trace", "odmlib.solvers.running"],
    ["odmlib.solvers.problem", "odmlib.solvers.margin_mean"],
    ["odmlib.solvers.kernel"],
    ["odmlib.solvers.linear"],
    ["odmlib.solvers.multiclass"],
    ["odmlib.solvers.kmomd"],
    ["odmlib.solvers.semi"],
    ["odmlib.solvers.distributed"],
    ["odmlib.model"],
    ["odmlib.machines"],
    ["odmlib.selection"],
    ["odmlib.plots"],
    ["odmlib.spark"],
    ["odmlib.cli", "odmlib.svmutil", "odmlib.sklearn"],
    ["odmlib"],  # the public names
]
HEIGHTS = {room: height for height, layer in enumerate(LAYERS) for room in layer}


class Import(NamedTuple):
    source: str
    target: str
    place: str  # file:line
    for_types: bool = False


def module_of(path: Path) -> str:
    parts = path.relative_to(ROOT).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


FILES = sorted(path for path in PACKAGE.rglob("*") if path.suffix in (".py", ".pyi", ".pyx", ".pxd"))
MODULES = {module_of(path) for path in FILES}


def known(name: str) -> str | None:
    """The module that a dotted name means: itself, or the one that holds it."""
    while name and name not in MODULES:
        name = name.rpartition(".")[0]
    return name if name.startswith("odmlib") else None


def python_imports(path: Path) -> Iterator[tuple[str, int, bool]]:
    """(dotted name, line, for types only) of every import of a Python file, at whatever depth it stands."""

    def walk(node: ast.AST, for_types: bool) -> Iterator[tuple[str, int, bool]]:
        if isinstance(node, ast.Import):
            yield from ((alias.name, node.lineno, for_types) for alias in node.names)
        if isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}:{node.lineno}: imports are absolute here"
            yield from ((f"{node.module}.{alias.name}", node.lineno, for_types) for alias in node.names)
        if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test):
            for child in node.body:
                yield from walk(child, True)
            for child in node.orelse:
                yield from walk(child, for_types)
            return
        for child in ast.iter_child_nodes(node):
            yield from walk(child, for_types)

    return walk(ast.parse(path.read_text()), path.suffix == ".pyi")


CYTHON_IMPORT = re.compile(
    r"^[ \t]*(?:from[ \t]+(?P<module>[\w.]+)[ \t]+c?import[ \t]+(?P<names>\([^)]*\)|[^\n#]+)"
    r"|c?import[ \t]+(?P<plain>[\w., \t]+))",
    re.MULTILINE,
)


def cython_imports(path: Path) -> Iterator[tuple[str, int, bool]]:
    text = path.read_text()
    for found in CYTHON_IMPORT.finditer(text):
        line = text.count("\n", 0, found.start()) + 1
        names = [
            word.split()[0]
            for word in (found["names"] or found["plain"]).strip("()").split(",")
            if word.strip()
        ]
        for name in names:
            yield f"{found['module']}.{name}" if found["module"] else name, line, False


def all_imports() -> list[Import]:
    found = []
    for path in FILES:
        read = cython_imports if path.suffix in (".pyx", ".pxd") else python_imports
        source = module_of(path)
        for name, line, for_types in read(path):
            target = known(name) if name.partition(".")[0] == "odmlib" else None
            if target is not None and target != source:
                found.append(Import(source, target, f"{path.relative_to(ROOT)}:{line}", for_types))
    return found


IMPORTS = all_imports()


def room_of(module: str) -> str:
    """The layer's entry that holds a module; the package itself holds no other."""
    name = module
    while name not in HEIGHTS or (name == "odmlib" != module):
        name = name.rpartition(".")[0]
        assert name, f"{module} belongs to no layer: say in LAYERS where it stands"
    return name


def circles(edges: dict[str, set[str]]) -> list[list[str]]:
    """Groups of modules that reach each other (Tarjan's strongly connected components of more than one)."""
    index: dict[str, int] = {}
    low: dict[str, int] = {}
    stack: list[str] = []
    found = []

    def visit(node: str) -> None:
        index[node] = low[node] = len(index)
        stack.append(node)
        for other in sorted(edges.get(node, ())):
            if other not in index:
                visit(other)
                low[node] = min(low[node], low[other])
            elif other in stack:
                low[node] = min(low[node], index[other])
        if low[node] == index[node]:
            group = []
            while not group or group[-1] != node:
                group.append(stack.pop())
            if len(group) > 1:
                found.append(sorted(group))

    for node in sorted(edges):
        if node not in index:
            visit(node)
    return found


def test_every_module_has_a_layer():
    filled = {module_of(path) for path in FILES if path.read_text()}  # an empty __init__ only marks a folder
    assert {room_of(module) for module in filled} == set(HEIGHTS)


def test_imports_are_found():
    """In every kind of file, at every depth: else the other tests would prove nothing."""
    pairs = {(one.source, one.target, one.for_types) for one in IMPORTS}
    assert ("odmlib.options", "odmlib.names", False) in pairs
    assert ("odmlib.cli.train", "odmlib.selection.training", False) in pairs  # inside a function
    assert ("odmlib.cli.train", "odmlib.model.model", True) in pairs  # if TYPE_CHECKING
    assert ("odmlib.losses.sums", "odmlib._core.rows", False) in pairs  # cimport
    assert len(IMPORTS) > 500


def test_imports_go_down():
    upward = [
        f"{one.place}: {one.source} imports {one.target}"
        for one in IMPORTS
        if HEIGHTS[room_of(one.source)] < HEIGHTS[room_of(one.target)]
    ]
    assert not upward, "imports that go up:\n" + "\n".join(upward)


@pytest.mark.parametrize("level", ["modules", "rooms"])
def test_imports_form_no_circle(level):
    edges: dict[str, set[str]] = {}
    for one in IMPORTS:
        ends = (one.source, one.target) if level == "modules" else (room_of(one.source), room_of(one.target))
        if not one.for_types and ends[0] != ends[1]:
            edges.setdefault(ends[0], set()).add(ends[1])
    assert not circles(edges)


def test_circles_are_found():
    assert circles({"a": {"b"}, "b": {"c"}, "c": {"a", "d"}, "d": set()}) == [["a", "b", "c"]]
    assert circles({"a": {"b", "c"}, "b": {"c"}}) == []
