"""How long odm-predict takes on ten rows, beside `python -c "import numpy"`.

    python -m benchmarks.startup [--quick]

Both are run in turn and their medians compared, so that a busy machine slows both. The aim is a ratio of
at most 1.5: in shell loops start-up is all that is felt.
"""

from __future__ import annotations

import statistics
import subprocess
import sys
import tempfile

import odmlib
from benchmarks._common import (
    generated_rows,
    interruptible,
    odm_tool,
    parse_arguments,
    timed,
    tool_environment,
    verdict,
)

AIM = 1.5
REPEATS = 21


def start(words: list[str]) -> None:
    subprocess.run(words, check=True, capture_output=True, env=tool_environment())


def main() -> int:
    repeats = 3 if parse_arguments(__doc__).quick else REPEATS
    with tempfile.TemporaryDirectory() as folder:
        X, y = generated_rows(60, 10)
        odmlib.write_data(f"{folder}/test", X[:10])
        predict = [*odm_tool("predict"), f"{folder}/test"]
        commands = {"import numpy": [sys.executable, "-c", "import numpy"]}
        for kernel in ("linear", "rbf"):
            odmlib.train(X[10:], y[10:], kernel=kernel).save(f"{folder}/{kernel}")
            commands[f"odm-predict, {kernel}"] = [*predict, f"{folder}/{kernel}", f"{folder}/out"]
        commands["odm-predict --help"] = [*odm_tool("predict"), "--help"]
        times: dict[str, list[float]] = {name: [] for name in commands}
        for _ in range(repeats):
            for name, words in commands.items():
                times[name].append(timed(lambda words=words: start(words))[0])
    base = statistics.median(times["import numpy"])
    ratios = {name: statistics.median(values) / base for name, values in times.items()}
    for name, values in times.items():
        print(f"{name:22} {1000 * statistics.median(values):7.1f} ms  {ratios[name]:5.2f} x  (aim: {AIM} x)")
    verdict(
        "odm-predict on ten rows / import numpy",
        [v for name, v in ratios.items() if name != "import numpy"],
        AIM,
    )
    return 0


if __name__ == "__main__":
    sys.exit(interruptible(main))
