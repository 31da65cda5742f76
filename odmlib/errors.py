"""Everything that odmlib raises on purpose; the command-line tools turn each into one line."""

from __future__ import annotations


class OdmError(Exception):
    """Base of all errors that a user can cause and mend."""


class ParameterError(OdmError, ValueError):
    """A parameter or an array handed to odmlib is out of range, of the wrong shape or contradictory."""


class FileFormatError(OdmError, ValueError):
    """A text file is not what it should be; the message reads `path:line:column: what is wrong`.

    `line` and `column` count from 1; 0 means that the fault has no single place.
    """

    def __init__(self, message: str, path: str = "", line: int = 0, column: int = 0):
        self.message = message
        self.path = path
        self.line = line
        self.column = column
        place = ":".join([path or "<data>"] + [str(number) for number in (line, column) if number])
        super().__init__(f"{place}: {message}")

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
