"""Build of the compiled parts. Metadata lives in pyproject.toml.

ODMLIB_DEBUG=1   compile with Cython's bounds and initialisation checks
ODMLIB_NATIVE=1  compile for this machine's processor only (never the default: wheels must run anywhere)
On Windows GCC (mingw-w64) is the compiler: the loops are written with vector types, which MSVC does not have.
"""

import os
import re
import sys
from pathlib import Path

from setuptools import Extension, setup
from setuptools.command.build_ext import build_ext
from setuptools.command.build_py import build_py

DEBUG = os.environ.get("ODMLIB_DEBUG") == "1"
NATIVE = os.environ.get("ODMLIB_NATIVE") == "1"
WINDOWS = os.name == "nt"

# checked and plain builds must never pick up each other's files
BUILD = "build/debug" if DEBUG else "build"

# Cython's code for memoryviews, compiled once instead of into every module
SHARED = "odmlib._core._cython"

DIRECTIVES = {
    "language_level": 3,
    "boundscheck": DEBUG,
    "wraparound": False,
    "initializedcheck": DEBUG,
    "cdivision": True,
    "embedsignature": True,
    # less code to compile: no class needs a pickle of Cython's making, no function is a method
    "auto_pickle": False,
    "binding": False,
    "show_performance_hints": False,
}


class BuildExtensions(build_ext):
    """Run Cython only when something is compiled, and choose flags once the real compiler is known."""

    def finalize_options(self):
        super().finalize_options()
        self.parallel = self.parallel or os.cpu_count()

    def run(self):
        from Cython.Build import cythonize

        found = cythonize(
            self.extensions,
            compiler_directives=DIRECTIVES,
            build_dir=f"{BUILD}/cython",
            shared_utility_qualified_name=SHARED,
            nthreads=self.parallel,
            quiet=True,
        )
        sources = {extension.name: extension.sources for extension in found}
        for extension in self.extensions:
            extension.sources = sources[extension.name]
        # the longest compilation must not begin last
        self.extensions.sort(key=lambda extension: -sum(os.path.getsize(path) for path in extension.sources))
        super().run()

    def build_extensions(self):
        if self.compiler.compiler_type == "msvc":
            raise SystemExit("odmlib is compiled by GCC or Clang, not by MSVC, which has no vector types")
        compile_flags = ["-pthread", "-Wno-unused-function"]
        # on Windows the runtime of GCC goes into the modules: it is not there on other machines
        link_flags = ["-pthread"] + (["-static"] if WINDOWS else [])
        # -g0: Python's own flags often ask for debugging symbols, which make wheels ten times as large
        compile_flags += ["-g", "-D_GLIBCXX_ASSERTIONS"] if DEBUG else ["-g0"]
        if NATIVE:
            compile_flags.append("-march=native")
        for extension in self.extensions:
            own = ["-O1"] if extension.name == SHARED else ["-O3", "-std=c++17"]  # no loops of ours in SHARED
            extension.extra_compile_args = compile_flags + own
            extension.extra_link_args = link_flags
        super().build_extensions()


class BuildModules(build_py):
    """Copy the modules, and drop what an earlier build left of modules that are no longer there."""

    def run(self):
        super().run()
        compiled = self.get_finalized_command("build_ext").get_outputs()
        kept = {os.path.abspath(path) for path in [*self.get_outputs(), *compiled]}
        for path in Path(self.build_lib, "odmlib").rglob("*.*"):
            if path.suffix in (".py", ".pyi", ".pxd", ".so", ".pyd") and os.path.abspath(path) not in kept:
                path.unlink()


def headers_of(source, headers):
    """The headers that a source names, itself or through others: "x.h" and `from odmlib.y cimport`."""
    found, todo = set(), [source, source.with_suffix(".pxd")]
    while todo:
        path = todo.pop()
        if path in found or not path.exists():
            continue
        found.add(path)
        text = path.read_text(encoding="utf-8")
        todo += [headers[name] for name in re.findall(r'"(\w+\.h)"', text) if name in headers]
        cimported = re.findall(r"^\s*from (odmlib[\w.]*) cimport", text, re.MULTILINE)
        todo += [Path(*name.split(".")).with_suffix(".pxd") for name in cimported]
    return sorted(str(path) for path in found if path.suffix == ".h")


def extensions():
    headers = {path.name: path for path in sorted(Path("odmlib").rglob("*.h"))}
    folders = sorted({str(path.parent) for path in headers.values()})
    for source in sorted(Path("odmlib").rglob("*.pyx")):
        name = ".".join(source.with_suffix("").parts)
        yield Extension(
            name,
            [str(source)],
            language="c++",
            include_dirs=folders,
            depends=headers_of(source, headers),
        )

    yield Extension(SHARED, [f"{SHARED.replace('.', '/')}.c"])


def tools():
    """The tools as plain scripts, which start fastest; Windows runs programs (.exe) only."""
    scripts = sorted(Path("bin").glob("odm-*"))
    if not WINDOWS:
        return {"scripts": [str(path) for path in scripts]}
    entries = [f"{path.name} = odmlib.cli.{path.name.removeprefix('odm-')}:main" for path in scripts]
    return {"entry_points": {"console_scripts": entries}}


def share_files():
    """Manual pages and completion for shells, made from the parsers: (folder of the system, files)."""
    sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
    from odmlib.cli.manual import write_files  # needs no compiled module

    folders = {}
    for path in write_files(Path(BUILD, "share")):
        folders.setdefault(str(path.parent.relative_to(BUILD)), []).append(str(path))
    return sorted(folders.items())


setup(
    data_files=[] if WINDOWS else share_files(),
    ext_modules=list(extensions()),
    cmdclass={"build_ext": BuildExtensions, "build_py": BuildModules},
    options={"build": {"build_base": BUILD}} | ({"build_ext": {"compiler": "mingw32"}} if WINDOWS else {}),
    **tools(),
)
