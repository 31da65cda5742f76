"""What Spark says, as one line."""

from __future__ import annotations

SHOWN_CHARACTERS = 300  # of a message by Spark
MORE_MEMORY = "give executors more (--executor-memory, spark.executor.memoryOverhead), or use more partitions"


def reason(text: str) -> str:
    """The one line that matters of what Spark says over pages; empty where there is none."""
    lines = [line.strip() for line in text.splitlines()]
    for line in lines:
        if line.startswith("ModuleNotFoundError") and "odmlib" in line:
            return "the executors have no odmlib (docs/spark.md says how it reaches them)"
    for line in lines:
        for mark in ("OutOfMemoryError", "MemoryError"):
            if mark in line:
                told = line[line.index(mark) :][:SHOWN_CHARACTERS]
                return f"a task had too little memory ({told}); {MORE_MEMORY}"
        if "Python worker exited unexpectedly" in line:
            return f"the process of a task was killed, as systems do that are short of memory; {MORE_MEMORY}"
    for line in _after_traceback(text):
        return line[:SHOWN_CHARACTERS]
    for line in reversed(lines):  # the innermost cause
        if line.startswith("Caused by: "):
            return line.removeprefix("Caused by: ")[:SHOWN_CHARACTERS]
    for line in lines:
        for mark in (": ", "Error: ", 'Exception in thread "main" ', "org.apache.", "[JAVA"):
            if line.startswith(mark):
                told = line if mark.startswith(("org", "[")) else line.removeprefix(mark)
                return told[:SHOWN_CHARACTERS]
    return ""


def _after_traceback(text: str) -> list[str]:
    """What exceptions of Python say, the innermost first."""
    found, inside = [], False
    for line in text.splitlines():
        if "Traceback (most recent call last)" in line:
            inside = True
        elif inside and line and not line.startswith(" "):
            found.append(line.strip())
            inside = False
    return found
