"""Build of the compiled parts. Metadata lives in pyproject.toml.

ODMLIB_DEBUG=1   compile with all of Cython's checks (bounds, None, overflow of views)
ODMLIB_NATIVE=1  compile for this machine's processor only (never the default: wheels must run anywhere)
"""

import os
from pathlib import Path

from setuptools import Extension, setup
from setuptools.command.build_ext import build_ext

DEBUG = os.environ.get("ODMLIB_DEBUG") == "1"
NATIVE = os.environ.get("ODMLIB_NATIVE") == "1"

DIRECTIVES = {
    "language_level": 3,
    "boundscheck": DEBUG,
    "wraparound": False,
    "initializedcheck": DEBUG,
    "nonecheck": DEBUG,
    "cdivision": True,
    "embedsignature": True,
}


class BuildExtensions(build_ext):
    """Choose compiler flags once the real compiler is known, and run Cython as late as possible."""

    def finalize_options(self):
        from Cython.Build import cythonize

        if self.distribution.ext_modules:
            self.distribution.ext_modules = cythonize(
                self.distribution.ext_modules,
                compiler_directives=DIRECTIVES,
                force=DEBUG,
                quiet=True,
            )
        super().finalize_options()

    def build_extensions(self):
        if self.compiler.compiler_type == "msvc":
            compile_flags, link_flags = ["/O2", "/std:c++17"], []
        else:
            compile_flags = ["-O3", "-std=c++17", "-pthread", "-Wno-unused-function"]
            link_flags = ["-pthread"]
            if DEBUG:
                compile_flags += ["-g", "-D_GLIBCXX_ASSERTIONS"]
            if NATIVE:
                compile_flags.append("-march=native")
        for extension in self.extensions:
            extension.extra_compile_args = compile_flags
            extension.extra_link_args = link_flags
        super().build_extensions()


def extensions():
    for source in sorted(Path("odmlib").rglob("*.pyx")):
        name = ".".join(source.with_suffix("").parts)
        headers = [str(header) for header in Path("odmlib").rglob("*.h")]
        yield Extension(
            name, [str(source)], language="c++", include_dirs=["odmlib/_core"], depends=headers
        )


setup(
    ext_modules=list(extensions()),
    cmdclass={"build_ext": BuildExtensions},
    scripts=[str(path) for path in sorted(Path("bin").glob("odm-*"))],
)
