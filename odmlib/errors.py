"""Everything that odmlib raises on purpose; the command-line tools turn each into one line."""

from __future__ import annotations

import re

# messages name an option as `theta (-p)` or `stop_level (--stop-level)`
_FLAG = re.compile(r" \(--?[A-Za-z][\w-]*( \w+)?\)")
# and messages about files name what helps in both worlds as `--one-hot (one_hot=True)`
_FLAG_AND_PYTHON = re.compile(r"(--[a-z-]+) \(([a-z_]\w*(?:\.\w+)?(?:=True)?)\)")
_NAME_AND_LONG_FLAG = re.compile(r"\b([A-Za-z_]\w*) \(--([\w-]+)\)")


class OdmError(Exception):
    """Base of all errors that a user can cause and mend."""


class ParameterError(OdmError, ValueError):
    """A parameter or an array handed to odmlib is out of range, of the wrong shape or contradictory.

    Python's users see the names of parameters; `shell` has the flags as well, for the tools.
    """

    def __init__(self, message: str, shell: str | None = None):
        super().__init__(_FLAG.sub("", message))
        self.shell = shell_words(message) if shell is None else shell

    def __reduce__(self) -> tuple:
        return type(self), (str(self), self.shell)


class FileFormatError(OdmError, ValueError):
    """A text file is not what it should be; the message reads `path:line:column: what is wrong`.

    `line` and `column` count from 1; 0 means that the fault has no single place. `shell` is the message for
    users of the tools, who type flags.
    """

    def __init__(self, message: str, path: str = "", line: int = 0, column: int = 0):
        self.message = message
        self.path = path
        self.line = line
        self.column = column
        place = ":".join([path or "<data>"] + [str(number) for number in (line, column) if number])
        super().__init__(f"{place}: " + _FLAG_AND_PYTHON.sub(r"\2", message))
        self.shell = f"{place}: {flags_alone(message)}"

    def __reduce__(self) -> tuple:
        return type(self), (self.message, self.path, self.line, self.column)


class DataFormatError(FileFormatError):
    """A data file in LIBSVM format has a fault."""


class ModelFormatError(FileFormatError):
    """A model file has a fault."""


class RangeFormatError(FileFormatError):
    """A range file of odm-scale has a fault."""


class FallbackWarning(UserWarning):
    """A semi-supervised machine returned the supervised one; the message says why."""


class ConvergenceWarning(UserWarning):
    """Training stopped before the duality gap reached the tolerance."""


class DataWarning(UserWarning):
    """The data are probably not what the machine is made for; the message says what was seen."""


def flags_alone(message: str) -> str:
    """The message about a file for users of the tools."""
    return _FLAG_AND_PYTHON.sub(r"\1", message)


def shell_words(message: str) -> str:
    """The message for users of the tools."""
    return _NAME_AND_LONG_FLAG.sub(_flag_alone, message)


def _flag_alone(match: re.Match[str]) -> str:
    """`--stop-level` says all that `stop_level (--stop-level)` does."""
    name, flag = match.groups()
    return f"--{flag}" if name.rstrip("_").replace("_", "-") == flag else match.group()
