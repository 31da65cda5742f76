"""Fuzz one target: python tests/fuzz/run.py TARGET SECONDS. Needs atheris (pip install "odmlib[fuzz]").

The corpus in this folder is where it starts; what it finds on the way stays in build/fuzz/TARGET. An input
that breaks a promise is written to corpus/TARGET as crash-..., where the ordinary suite replays it.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent.parent
GROWN = ROOT / "build" / "fuzz"
LONGEST = 4096  # bytes of an input


def words_of(seeds: Path) -> list[str]:
    """A dictionary of libFuzzer: the words of the seeds."""
    found = {
        word for path in seeds.iterdir() for word in re.findall(rb"[A-Za-z_0-9.+-]+|[^\s]", path.read_bytes())
    }
    return [
        '"' + "".join(f"\\x{byte:02x}" for byte in word) + '"' for word in sorted(found) if len(word) < 30
    ]


def main() -> None:
    import atheris

    sys.path.append(str(ROOT))  # behind an installed odmlib
    name, seconds = sys.argv[1], int(sys.argv[2])
    with atheris.instrument_imports(include=["odmlib", "tests.reference", "tests.fuzz.targets"]):
        from tests.fuzz.targets import TARGETS

    seeds, grown = HERE / "corpus" / name, GROWN / name
    grown.mkdir(parents=True, exist_ok=True)
    dictionary = GROWN / f"{name}.dict"
    dictionary.write_text("\n".join(words_of(seeds)) + "\n")
    options = [
        f"-max_total_time={seconds}",
        f"-max_len={LONGEST}",
        f"-dict={dictionary}",
        f"-artifact_prefix={seeds}/",
        "-timeout=20",
        "-rss_limit_mb=3000",
        "-print_final_stats=1",
        "-seed=1",
    ]
    compared = runs = 0

    def one_input(data: bytes) -> None:
        nonlocal compared, runs
        runs += 1
        compared += TARGETS[name](data)
        if runs % 10_000 == 0:
            print(f"{name}: {runs} inputs, {compared} comparisons", file=sys.stderr)

    atheris.Setup([sys.argv[0], *options, str(grown), str(seeds)], one_input)
    atheris.Fuzz()


if __name__ == "__main__":
    main()
