"""python -m benchmarks: an installed odmlib is measured, not the sources beside this folder."""

import sys
from pathlib import Path

_root = str(Path(__file__).resolve().parent.parent)
sys.path[:] = [place for place in sys.path if place != _root] + [_root]
