"""Build of the compiled parts. Metadata lives in pyproject.toml.

ODMLIB_DEBUG=1     compile with Cython's bounds and initialisation checks
ODMLIB_SANITIZE=1  compile with AddressSanitizer and UndefinedBehaviorSanitizer (`make test-asan`)
ODMLIB_NATIVE=1    compile for this machine's processor only (never the default: wheels must run anywhere)
On Windows GCC (mingw-w64) is the compiler: the loops are written with vector types, which MSVC does not have.
"""

import gzip
import os
import re
import sys
import tarfile
import time
import types
from pathlib import Path

from setuptools import Extension, setup
from setuptools.command.build_ext import build_ext
from setuptools.command.build_py import build_py
from setuptools.command.sdist import sdist

DEBUG = os.environ.get("ODMLIB_DEBUG") == "1"
SANITIZE = os.environ.get("ODMLIB_SANITIZE") == "1"
NATIVE = os.environ.get("ODMLIB_NATIVE") == "1"
WINDOWS = os.name == "nt"

# checked and plain builds must never pick up each other's files
BUILD = "build/sanitized" if SANITIZE else "build/debug" if DEBUG else "build"
# UBSAN_OPTIONS says at run time whether a fault ends the process
SANITIZERS = ["-fsanitize=address,undefined", "-fno-omit-frame-pointer"]

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

# Short cuts of Cython for code that works with Python objects. Loops have none of it, and the compiler needs
# a tenth longer for it; newer Pythons do without most of them.
NO_SHORT_CUTS = [
    ("CYTHON_USE_DICT_VERSIONS", "0"),
    ("CYTHON_UNPACK_METHODS", "0"),
    ("CYTHON_USE_PYLONG_INTERNALS", "0"),
]

# -O2 makes mcODM up to 1.4 times slower. -fno-gcse: no loop needs this pass, and it takes long over code for
# Python objects. Clang has no such pass.
LOOPS = ["-O3", "-std=c++17", "-fno-gcse", "-Wno-ignored-optimization-argument"]


def code_of(path):
    """What Cython wrote, without the comment at its head, which lists folders in any order."""
    return path.read_bytes().rpartition(b"END: Cython Metadata")[2]


class BuildExtensions(build_ext):
    """Run Cython only when something is compiled, and choose flags once the real compiler is known."""

    def finalize_options(self):
        super().finalize_options()
        self.parallel = self.parallel or os.cpu_count()

    def run(self):
        from Cython.Build import cythonize

        before = {path: (path.stat(), code_of(path)) for path in Path(BUILD, "cython").rglob("*.c*")}
        found = cythonize(
            self.extensions,
            compiler_directives=DIRECTIVES,
            build_dir=f"{BUILD}/cython",
            shared_utility_qualified_name=SHARED,
            nthreads=self.parallel,
            quiet=True,
        )
        # Cython runs again for every new build environment; what comes out as it was is not compiled again
        for path, (status, code) in before.items():
            if path.exists() and code_of(path) == code:
                os.utime(path, ns=(status.st_atime_ns, status.st_mtime_ns))
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
        compile_flags += ["-g", "-D_GLIBCXX_ASSERTIONS"] if DEBUG or SANITIZE else ["-g0"]
        if SANITIZE:
            compile_flags += SANITIZERS
            link_flags += SANITIZERS
        if WINDOWS:
            # stacks are aligned to 16 bytes there, and GCC spills vectors of 32 as if they were aligned
            compile_flags.append("-Wa,-muse-unaligned-vector-move")
        if NATIVE:
            compile_flags.append("-march=native")
        for extension in self.extensions:
            own = ["-O1"] if extension.name == SHARED else LOOPS  # no loops of ours in SHARED
            if SANITIZE:
                own = [*own, "-O1"]  # the last one counts
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


class SourceArchive(sdist):
    """Write the archive so that the same sources make the same bytes: sorted, with one date and no owner."""

    def make_archive(self, base_name, format, root_dir=None, base_dir=None, owner=None, group=None):
        if format != "gztar":
            return super().make_archive(base_name, format, root_dir, base_dir, owner, group)
        date = int(os.environ.get("SOURCE_DATE_EPOCH", time.time()))

        def plain(member):
            member.uid = member.gid = 0
            member.uname = member.gname = ""
            member.mtime = date
            member.mode = 0o755 if member.isdir() or member.mode & 0o100 else 0o644
            return member

        self.mkpath(os.path.dirname(base_name))
        name = f"{base_name}.tar.gz"
        with (
            open(name, "wb") as file,
            gzip.GzipFile("", "wb", fileobj=file, mtime=date) as packed,
            tarfile.open(fileobj=packed, mode="w", format=tarfile.PAX_FORMAT) as archive,
        ):
            archive.add(base_dir, filter=plain)  # sorted by tarfile
        return name


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
            define_macros=NO_SHORT_CUTS,
            depends=[*headers_of(source, headers), "setup.py"],
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
    # the package itself refuses to be imported before it is compiled; its parsers need nothing compiled
    package = types.ModuleType("odmlib")
    package.__path__ = [str(Path(__file__).resolve().parent / "odmlib")]
    sys.modules["odmlib"] = package
    from odmlib.cli.manual import write_files

    folders = {}
    for path in write_files(Path(BUILD, "share")):
        folders.setdefault(str(path.parent.relative_to(BUILD)), []).append(str(path))
    return sorted(folders.items())


setup(
    data_files=[] if WINDOWS else share_files(),
    ext_modules=list(extensions()),
    cmdclass={"build_ext": BuildExtensions, "build_py": BuildModules, "sdist": SourceArchive},
    options={"build": {"build_base": BUILD}} | ({"build_ext": {"compiler": "mingw32"}} if WINDOWS else {}),
    **tools(),
)
