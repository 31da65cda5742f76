"""`make demo`: the three tools on a real set, each command printed, and the result explained.

Works in the folder demo/ beside data/; nothing else is touched.
"""

import subprocess
import sys
from pathlib import Path

import odmlib
from odmlib.model.margins import margin_summary, text_histogram

ROOT = Path(__file__).resolve().parent.parent
FOLDER = ROOT / "demo"
TOOLS = Path(sys.executable).parent

COMMANDS = [
    "odm-scale -l 0 -s wdbc.range ../data/wdbc.train.txt > train.txt",
    "odm-scale -r wdbc.range ../data/wdbc.test.txt > test.txt",
    "odm-train -s 2 train.txt wdbc.model",
    "odm-predict test.txt wdbc.model predicted.txt",
]


def run_tools() -> None:
    print(
        "Tumours of the breast, malignant (+1) or benign (-1): 398 to learn from, 171 to be told.\n",
        flush=True,
    )
    for command in COMMANDS:
        print(f"$ {command}", flush=True)
        subprocess.run(command, shell=True, check=True, cwd=FOLDER, env={"PATH": f"{TOOLS}:/usr/bin:/bin"})


def explain() -> None:
    X, y = odmlib.read_data(FOLDER / "test.txt")
    model = odmlib.load_model(FOLDER / "wdbc.model")
    margins = model.margins(X, y)
    summary = margin_summary(margins)
    right = int((margins > 0).sum())
    theta = model.parameters["theta"]
    print(f"""
What came out, on the {len(y)} rows that training did not see:

  accuracy         {100 * right / len(y):.2f} % ({right} of {len(y)})
  margin mean      {summary["mean"]:.4f}   how far, on average, a row lies on the right side
  margin variance  {summary["variance"]:.4f}   how much that differs from row to row
  margin minimum   {summary["min"]:.4f}   the worst row; a negative margin is an error

ODM does not only push the smallest margin up: it draws all margins into the band
from {1 - theta:g} to {1 + theta:g} (theta = {theta:g}). This is their distribution:
""")
    print(text_histogram(margins))
    print(
        f"\nTraining: {model.report['status']}, relative duality gap {model.report['gap']:.1e} on all rows,"
    )
    support, rows = model.report["support_vectors"], model.report["rows"]
    print(f"{support} of {rows} rows are support vectors. Files are in demo/.")


if __name__ == "__main__":
    FOLDER.mkdir(exist_ok=True)
    run_tools()
    explain()
