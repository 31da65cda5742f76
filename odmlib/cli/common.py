"""What every tool shares: how it ends, what it says, and which exit code it leaves.

    0    done; also when the reader of our output has gone (`odm-predict ... | head`)
    1    bad data, failed reading or writing, out of memory: one line on stderr
    2    bad usage: one line on stderr
    130  Ctrl-C;  143 SIGTERM;  129 SIGHUP: 128 + the signal, as shells count

A message is one line, `program: what`, also where a path holds a line break. ODMLIB_TRACEBACK=1 shows where
an error came from. This module is light (no numpy), so that `--help` and mistakes answer at once.
"""

from __future__ import annotations

import io
import os
import signal
import sys
import threading
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import copy_context
from types import FrameType
from typing import NoReturn

from odmlib.cli.parser import Finished, NothingGiven, UsageError
from odmlib.errors import FileFormatError, OdmError, ParameterError

OK, FAILED, MISUSED, INTERRUPTED = 0, 1, 2, 130


class Terminated(BaseException):
    """A signal, its number, asked the process to end; an exception so that temporary files are removed."""


def run_tool(program: str, run: Callable[[Sequence[str]], int], argv: Sequence[str] | None = None) -> int:
    """Run a tool on a command line, turn whatever ends it into one line and an exit code."""
    with _termination_as_exception():
        try:
            try:
                with _warnings_in_one_line(program), _names_of_any_bytes():
                    # what it sets for itself ends with its context
                    code = copy_context().run(run, sys.argv[1:] if argv is None else argv)
            except Finished:
                code = OK
            _flush_stdout()
            return code
        except BaseException as error:
            if os.environ.get("ODMLIB_TRACEBACK") == "1":
                import traceback  # slow to load, seldom needed

                traceback.print_exc()
            # Python kills itself where Ctrl-C came while it executed text, as dataclass does, unless text has
            # been executed since
            exec("")
            return _end(program, error)


def say(program: str, message: str) -> None:
    """One line on stderr; a closed or full stderr is no reason to fail."""
    if sys.stderr is None:
        return
    try:
        sys.stderr.write(f"{program}: {one_line(message)}\n")
        sys.stderr.flush()
    except OSError:
        pass


def warn(program: str, message: str) -> None:
    say(program, f"warning: {message}")


@contextmanager
def _warnings_in_one_line(program: str) -> Iterator[None]:
    """Python's warnings, which would show a line of our source, in the words of a tool."""
    with warnings.catch_warnings():
        warnings.showwarning = lambda message, *about: warn(program, str(message))
        yield


@contextmanager
def _names_of_any_bytes() -> Iterator[None]:
    """Names of files go to stdout as the bytes that they are, also where these are no text."""
    stream = sys.stdout
    if not isinstance(stream, io.TextIOWrapper) or stream.errors != "strict":
        yield
        return
    stream.reconfigure(errors="surrogateescape")
    try:
        yield
    finally:
        if not stream.closed:
            stream.reconfigure(errors="strict")


@contextmanager
def bad_values_as_usage() -> Iterator[None]:
    """A value that an option cannot have is bad usage."""
    try:
        yield
    except ParameterError as error:
        raise UsageError(error.shell) from None


def one_line(text: str) -> str:
    """`text` with line breaks, escape sequences and undecodable bytes made visible."""
    return "".join(
        character if character.isprintable() else character.encode("unicode_escape").decode("ascii")
        for character in text
    )


def shown_name(path: str) -> str:
    return "<stdin>" if path == "-" else path


def base_name(path: str) -> str:
    """The file's name alone, as pictures and pages show it."""
    return one_line(os.path.basename(shown_name(path)))


def refuse_overwriting(output: str | None, inputs: Sequence[str | None], message: str = "") -> None:
    """A slip of the fingers must not cost the user the data."""
    for name in inputs:
        if not (output and name and os.path.isfile(name) and os.path.exists(output)):
            continue
        if os.path.samefile(name, output):
            raise UsageError(message or f"the output would replace the input {name}")


def refuse_twice(outputs: Sequence[str | None]) -> None:
    """Of two outputs in one file only the later one would be left. Devices and pipes take any number."""
    taken = set()
    for name in outputs:
        if not name or name == "-" or (os.path.exists(name) and not os.path.isfile(name)):
            continue
        place = os.path.realpath(name)
        if place in taken:
            raise UsageError(f"two outputs would go to the same file {name}")
        taken.add(place)


def _end(program: str, error: BaseException) -> int:
    """Word the error that ended a tool; what is no failure of the tool goes on upwards."""
    match error:
        case UsageError():
            say(program, f"{error} (see {program} --help)")
            return MISUSED
        case NothingGiven():
            if sys.stderr is not None:
                print(error, file=sys.stderr)
            return MISUSED
        case BrokenPipeError():
            _discard_stdout()
            return OK
        case KeyboardInterrupt():
            _discard_stdout()
            say(program, "interrupted")
            return INTERRUPTED
        case Terminated():
            _discard_stdout()
            say(program, "terminated")
            return 128 + error.args[0]
        case ParameterError() | FileFormatError():
            say(program, error.shell)
        case OdmError():
            say(program, str(error))
        case OSError():
            say(program, _wording(error))
        case MemoryError():
            say(program, f"out of memory: {error}" if str(error) else "out of memory")
        case Exception():
            hint = "please report it; ODMLIB_TRACEBACK=1 shows where"
            say(program, f"internal error: {type(error).__name__}: {error} ({hint})")
        case _:
            raise error
    _drain_stdout()
    return FAILED


def _wording(error: OSError) -> str:
    reason = error.strerror or str(error) or type(error).__name__
    if error.filename is None:
        return reason
    name = error.filename
    return f"{os.fsdecode(name) if isinstance(name, bytes | str) else name}: {reason}"


@contextmanager
def _termination_as_exception() -> Iterator[None]:
    """SIGTERM and SIGHUP raise Terminated meanwhile, unless someone (nohup) already decided about them."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    caught = [
        which
        for which in (signal.SIGTERM, getattr(signal, "SIGHUP", signal.SIGTERM))
        if signal.getsignal(which) is signal.SIG_DFL
    ]
    for which in caught:
        signal.signal(which, _raise_terminated)
    try:
        yield
    finally:
        for which in caught:
            signal.signal(which, signal.SIG_DFL)


def _raise_terminated(signal_number: int, frame: FrameType | None) -> NoReturn:
    raise Terminated(signal_number)


def _flush_stdout() -> None:
    if sys.stdout is None:
        return
    try:
        sys.stdout.flush()
    except BrokenPipeError:
        raise
    except OSError as error:
        raise OSError(error.errno, error.strerror, "<stdout>") from None


def _drain_stdout() -> None:
    """After a failure: let out what was written before, or drop it where that is what failed."""
    try:
        _flush_stdout()
    except OSError:
        _discard_stdout()


def _discard_stdout() -> None:
    """Drop what stdout still buffers; else the interpreter would try, and complain, once more at its end."""
    if sys.stdout is None:
        return
    try:
        target = sys.stdout.fileno()
    except (OSError, ValueError):  # not a real file: a test or a caller put something in its place
        return
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, target)
    os.close(nowhere)
