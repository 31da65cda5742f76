"""Settings for the whole suite."""

import os
import re
import signal
from pathlib import Path

import pytest
from hypothesis import settings

import odmlib

# the same examples in every run, and no deadline: machines are shared
settings.register_profile("repeatable", derandomize=True, deadline=None)
settings.load_profile("repeatable")

# programs that tests start use the very odmlib under test, not sources that lie in the current directory;
# after it come the tests themselves
PLACES = (Path(odmlib.__file__).resolve().parent.parent, Path(__file__).resolve().parent.parent)
os.environ["PYTHONPATH"] = os.pathsep.join(map(str, PLACES))
os.environ["PYTHONSAFEPATH"] = "1"

# a suite started in the background ignores Ctrl-C, and so would the programs it starts
signal.signal(signal.SIGINT, signal.default_int_handler)

# Why a test may be skipped: it needs something that pip cannot install, or another system. Any other skip is
# a failure, so that nothing which users install goes untested unnoticed. ODMLIB_MAY_SKIP holds one more
# pattern, for environments that lack something on purpose.
MAY_SKIP = re.compile(
    "|".join(
        [
            r"the real set .* is not in |the data sets are not here",
            r"shared/data/.* is not here",
            r"pyspark is not installed|'pyspark|needs pyspark|Spark needs Java",
            r"mlflow is not installed",  # 28 packages for one example; the group dev has it
            r"(svm|train|predict)\S* is not installed|Debian's libsvm-tools is not installed",
            r"chromium (is not installed|does not)",
            r"root may write|only root can",
            r"(a C compiler|gcc|clang|tcc) is not installed|no C\+\+ compiler here|no ThreadSanitizer",
            r"for make test-asan|sanitizers take memory|only one of them can be preloaded",
            r"the shim knows glibc|other systems have their own ways|forks|this system cannot fork",
            r"no /dev/full|/proc",
            r"no locale with a decimal comma",
            r"array.api",  # scikit-learn's own checks, where scipy's array API is not switched on
            r"is not on the PATH",  # compilers for other systems, qemu, valgrind, other shells
            r"recorded with another compiler",
            os.environ.get("ODMLIB_MAY_SKIP") or "$^",
        ]
    )
)


def _fail_if_unexpected(report):
    if report.skipped and not hasattr(report, "wasxfail"):
        reason = report.longrepr[-1] if isinstance(report.longrepr, tuple) else str(report.longrepr)
        if not MAY_SKIP.search(reason):
            report.outcome = "failed"
            report.longrepr = f"{report.nodeid}: unexpected skip (MAY_SKIP in tests/conftest.py): {reason}"
    return report


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport():
    return _fail_if_unexpected((yield))


@pytest.hookimpl(wrapper=True)
def pytest_make_collect_report():
    return _fail_if_unexpected((yield))
