"""What the scripts with pictures share: the command line, the file of the picture, and no window."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from pathlib import Path
from typing import Any

import matplotlib

matplotlib.use("Agg")  # pictures go to files

DATA = Path(__file__).resolve().parent.parent / "data"


def run(
    draw: Callable[[bool], Any], name: str, description: str | None, argv: list[str] | None = None
) -> Path:
    """Draw (`draw(quick)` gives the figure) and save under the name the user wants."""
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument(
        "--output", type=Path, default=Path(f"{name}.png"), help=f"picture (default {name}.png)"
    )
    parser.add_argument("--quick", action="store_true", help="small sizes")
    arguments = parser.parse_args(argv)
    figure = draw(arguments.quick)
    figure.savefig(arguments.output, dpi=100)
    print(f"picture in {arguments.output}")
    return arguments.output
