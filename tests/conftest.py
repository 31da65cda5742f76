"""Settings for the whole suite."""

import os
import signal
from pathlib import Path

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
