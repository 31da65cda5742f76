"""Build of the compiled parts. Metadata lives in pyproject.toml.

ODMLIB_DEBUG=1   compile with Cython's bounds and initialisation checks
ODMLIB_NATIVE=1  compile for this machine's processor only (never the default: wheels must run anywhere)
On Windows GCC (mingw-w64) is the compiler: the loops are written with vector types, which MSVC does not have.
"""

import os
import re
from pathlib import Path

from setuptools import Extension, setup
from setuptools.command.build_ext import build_ext

DEBUG = os.environ.get("ODMLIB_DEBUG") == "1"
NATIVE = os.environ.get("ODMLIB_NATIVE") == "1"
WINDOWS = os.name == "nt"

# checked and plain builds must never pick up each other's files
BUILD = "build/debug" if DEBUG else "build"

DIRECTIVES = {
    "language_level": 3,
    "boundscheck": DEBUG,
    "wraparound": False,
    "initializedcheck": DEBUG,
    "cdivision": True,
    "embedsignature": True,
    "show_performance_hints": False,
}


class BuildExtensions(build_ext):
    """Choose compiler flags once the real compiler is known, and run Cython as late as possible."""

    def finalize_options(self):
        from Cython.Build import cythonize

        if self.distribution.ext_modules:
            self.distribution.ext_modules = cythonize(
                self.distribution.ext_modules,
                compiler_directives=DIRECTIVES,
                build_dir=f"{BUILD}/cython",
                quiet=True,
            )
        super().finalize_options()
        self.parallel = self.parallel or os.cpu_count()

    def build_extensions(self):
        if self.compiler.compiler_type == "msvc":
            raise SystemExit("odmlib is compiled by GCC or Clang, not by MSVC, which has no vector types")
        compile_flags = ["-O3", "-std=c++17", "-pthread", "-Wno-unused-function"]
        # on Windows the runtime of GCC goes into the modules: it is not there on other machines
        link_flags = ["-pthread"] + (["-static"] if WINDOWS else [])
        # -g0: Python's own flags often ask for debugging symbols, which make wheels ten times as large
        compile_flags += ["-g", "-D_GLIBCXX_ASSERTIONS"] if DEBUG else ["-g0"]
        if NATIVE:
            compile_flags.append("-march=native")
        for extension in self.extensions:
            extension.extra_compile_args = compile_flags
            extension.extra_link_args = link_flags
        super().build_extensions()


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


def tools():
    """The tools as plain scripts, which start fastest; Windows runs programs (.exe) only."""
    scripts = sorted(Path("bin").glob("odm-*"))
    if not WINDOWS:
        return {"scripts": [str(path) for path in scripts]}
    entries = [f"{path.name} = odmlib.cli.{path.name.removeprefix('odm-')}:main" for path in scripts]
    return {"entry_points": {"console_scripts": entries}}


setup(
    ext_modules=list(extensions()),
    cmdclass={"build_ext": BuildExtensions},
    options={"build": {"build_base": BUILD}} | ({"build_ext": {"compiler": "mingw32"}} if WINDOWS else {}),
    **tools(),
)
