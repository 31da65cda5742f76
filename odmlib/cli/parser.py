"""ToolParser: argparse with the manners of LIBSVM's tools and none of their accidents.

Accepted for every option: `-l 0`, `-l0`, `-l=0`, `--lower 0`, `--lower=0`, options before, between and after
the files. The word after an option that takes a value is its value, whatever it looks like (`-1e-3`, `-.5`,
`-`), unless it is another option of the tool. Options of several words (`-y LOWER UPPER`, `-wLABEL WEIGHT`)
take the first one glued or apart. Nothing is abbreviated and nothing unknown is let through.

argparse cannot be told all of this, so the command line is brought into the form `option=value ... -- files`
first; argparse then converts, fills in defaults and writes the help.
"""

from __future__ import annotations

import argparse
import math
import os
import sys
from collections.abc import Callable, Collection, Sequence
from typing import Any, NamedTuple, NoReturn

from odmlib._version import __version__
from odmlib.values import read_number, read_whole, shown_word

# what word processors and web pages make of a hyphen
LOOKALIKES = "\u2010\u2011\u2012\u2013\u2014\u2015\u2212"

ABOUT = "about the tool"  # group of the options that all tools have

_WORD_END = "\0"  # parts the words of one option; no argument of a process can hold it


class UsageError(Exception):
    """The command line is wrong: exit code 2."""


class NothingGiven(Exception):
    """The command line is empty: its text, a short usage with examples, is shown; exit code 2."""


class Finished(Exception):
    """The command line asked for help or the version, which has been printed."""


class Topic(NamedTuple):
    """A part of the help: a text, options by the names of their values, and all of one group."""

    text: str
    options: Collection[str]
    group: str = ""


class ToolParser(argparse.ArgumentParser):
    """Declare options with `option`, files with `add_argument`; `usage` follows the program's name."""

    def __init__(
        self,
        program: str,
        usage: str,
        description: str,
        epilog: str | None = None,
        help_flags: str = "-h --help",
    ):
        super().__init__(
            prog=program,
            usage=f"{program} {usage}",
            description=description,
            epilog=epilog,
            add_help=False,
            allow_abbrev=False,
            formatter_class=_HelpFormatter,
        )
        self.color = False  # Python 3.14 would colour the help
        self._words: dict[str, int] = {}
        self._alone: dict[str, tuple[Sequence[str], str]] = {}
        self._single: dict[str, str] = {}
        self.values: dict[str, Sequence[str]] = {}  # words that a flag takes, for completion in shells
        self.kinds: dict[str, Callable[[], ToolParser]] = {}  # parsers of a first word: odm-plot roc
        self._folded: set[str] = set()  # titles of groups that only --help-all shows
        self._topics: dict[str, Topic] = {}  # by the word behind --help
        self.option(help_flags, "show this help", action="help", group=ABOUT)
        version = f"{program} {__version__}"
        self.option("--version", "show the version", action="version", version=version, group=ABOUT)
        limit = "refuse packed files that unpack to more: bytes, or with K, M or G (default: any size; "
        limit += "models 200 times their own and 64M)"
        self.option("--max-unpacked SIZE", limit, type=size_in_bytes, group=ABOUT)

    def option(
        self,
        usage: str,
        help: str,
        type: Callable[[str], Any] = str,
        alone: str | None = None,
        single: str | None = None,
        group: str = "options",
        values: Sequence[str] = (),
        **details: Any,
    ) -> None:
        """Declare an option: `-y --target LOWER UPPER` are its flags and a word for each of its values, which
        are a list where there are several. An option without values is a switch.

        `type` makes a value of a word, or raises ValueError. `alone` names the flag that is meant when none
        of `choices` follows (`-h` of odm-train). `single` is a first value that stands alone where the others
        have more words behind them (`-w balanced`). `group` is a title in the help.
        """
        flags = [word for word in usage.split() if word.startswith("-")]
        words = usage.split()[len(flags) :]
        if words:
            details |= {"metavar": " ".join(words), "type": explained(type, len(words) > 1)}
        else:
            details.setdefault("action", "store_true")
        groups = {known.title: known for known in self._action_groups}
        (groups.get(group) or self.add_argument_group(group)).add_argument(*flags, help=help, **details)
        self._words |= dict.fromkeys(flags, len(words))
        self.values |= dict.fromkeys(flags, values or details.get("choices") or ())
        if single is not None:
            self._single |= dict.fromkeys(flags, single)
        if alone is not None:
            self._alone |= dict.fromkeys(flags, (details["choices"], alone))

    def fold(self, group: str) -> None:
        """Show a group of options only with `--help-all`."""
        if not self._folded:
            self.option(
                "--help-all", "show the options of all machines, too", action="store_true", group=ABOUT
            )
        self._folded.add(group)

    def explain(self, words: Sequence[str], topic: Topic) -> None:
        """Show a topic with `--help` and one of these words behind it."""
        self._topics |= dict.fromkeys(words, topic)

    def format_help(self) -> str:
        return self._formatted(self._folded)

    def _explained(self, topic: Topic) -> str:
        """What `--help WORD` shows."""
        formatter = self._get_formatter()
        formatter.add_usage(self.usage, self._actions, self._mutually_exclusive_groups)
        formatter.add_text(topic.text)
        for group in self._action_groups:
            wanted = [one for one in group._group_actions if one.dest in topic.options]
            every = group.title == topic.group
            formatter.start_section(group.title)
            formatter.add_arguments(group._group_actions if every else wanted)
            formatter.end_section()
        formatter.add_text(f"{self.prog} --help shows the options that all machines share")
        return formatter.format_help()

    def _formatted(self, folded: Collection[str]) -> str:
        """The help without the folded groups."""
        formatter = self._get_formatter()
        formatter.add_usage(self.usage, self._actions, self._mutually_exclusive_groups)
        formatter.add_text(self.description)
        for group in [
            *self._action_groups[:2],
            *self._action_groups[3:],
            self._action_groups[2],
        ]:  # ABOUT last
            if group.title not in folded:
                formatter.start_section(group.title)
                formatter.add_arguments(group._group_actions)
                formatter.end_section()
        if folded:
            words = [f"--help {word}" for word in self._topics if not word.isdigit()]
            formatter.add_text(f"The options that one machine reads: {', '.join(words)}")
        formatter.add_text(self.epilog)
        return formatter.format_help()

    def short_help(self) -> str:
        """The usage with three examples."""
        examples = [line for line in (self.epilog or "").splitlines() if line.startswith("  ")][:3]
        shown = ["examples:", *examples] if examples else []
        return "\n".join([f"usage: {self.usage}", *shown, f"{self.prog} --help says more"])

    def parse(self, argv: Sequence[str]) -> argparse.Namespace:
        """Read a command line; raises UsageError, NothingGiven, or Finished after `--help` or `--version`."""
        if not argv:
            raise NothingGiven(self.short_help())
        arguments = self.parse_args(self.rearranged(argv))
        if arguments.max_unpacked is not None:
            from odmlib.data.files import limit_unpacking

            limit_unpacking(arguments.max_unpacked)
        return arguments

    def rearranged(self, argv: Sequence[str]) -> list[str]:
        """The command line as argparse cannot misread it: `option=value` words, `--`, files."""
        options: list[str] = []
        files: list[str] = []
        rest = list(argv)
        while rest:
            word = rest.pop(0)
            if word == "--":
                files += rest
                break
            if word == "-" or not word.startswith("-"):
                if word[:1] and word[0] in LOOKALIKES:
                    raise UsageError(f"'{word}' does not start with a hyphen: {lookalike(word)}")
                files.append(word)
            elif word == "--help" and rest and rest[0] in self._topics:
                self._print_and_finish(self._explained(self._topics[rest[0]]))
            elif word == "--help-all" and self._topics:
                self._print_and_finish(self._formatted(()))
            else:
                options.append(self._with_values(word, rest))
        return [*options, "--", *files] if files else options

    def _print_and_finish(self, text: str) -> NoReturn:
        self._print_message(text, sys.stdout)
        raise Finished

    def error(self, message: str) -> NoReturn:
        raise UsageError(message.removeprefix("argument "))

    def exit(self, status: int = 0, message: str | None = None) -> NoReturn:
        if message:
            self._print_message(message)
        raise Finished

    def _with_values(self, word: str, rest: list[str]) -> str:
        """The option that `word` starts, joined with its values; takes those it needs off `rest`."""
        flag, values = self._parted(word)
        needed = self._words[flag]
        if flag in self._alone and not values:
            choices, meant = self._alone[flag]
            if not rest or rest[0] not in choices:
                return meant
        while len(values) < needed and values != [self._single.get(flag)]:
            if not rest or rest[0] == "--" or rest[0] in self._words:
                found = f"found the option {rest[0]}" if rest and rest[0] != "--" else "found none"
                wanted = "a value" if needed == 1 else f"{needed} values"
                raise UsageError(f"{flag} needs {wanted}, {found if not values else 'found one'}")
            values.append(rest.pop(0))
        return f"{flag}={_WORD_END.join(values)}" if needed else flag

    def _parted(self, word: str) -> tuple[str, list[str]]:
        """An option and the value glued to it, if any."""
        name, equals, value = word.partition("=")
        if name in self._words:
            if equals and not self._words[name]:
                raise UsageError(f"{name} takes no value, found '{value}'")
            return name, [value] if equals else []
        short = word[:2]
        if self._words.get(short) and "-" + name not in self._words:
            return short, [word[2:]]
        raise UsageError(f"unknown option '{name}'{self._suggestion(name)}")

    def _suggestion(self, name: str) -> str:
        from difflib import get_close_matches

        known = [flag for flag in self._words if flag.startswith("--")]
        near = get_close_matches("--" + name.lstrip("-"), known, n=1) if len(name) > 2 else []
        return f"; did you mean {near[0]}?" if near else ""


def parts_of(word: str) -> list[str]:
    """An option of a rearranged command line as the words that a user would type."""
    flag, equals, values = word.partition("=")
    return [flag, *values.split(_WORD_END)] if equals else [flag]


class _HelpFormatter(argparse.RawDescriptionHelpFormatter):
    """argparse makes one for every option, and would import shutil with all packers to know the width."""

    def __init__(self, prog: str, **details: Any):
        super().__init__(prog, width=max(40, terminal_columns()) - 2, **details)


def terminal_columns() -> int:
    try:
        return int(os.environ.get("COLUMNS") or os.get_terminal_size().columns)
    except (OSError, ValueError):
        return 80


def lookalike(text: str) -> str:
    """Say which character only looks like a hyphen."""
    character = next(character for character in text if character in LOOKALIKES)
    return f"'{character}' (U+{ord(character):04X}) is another character that only looks like one"


def explained(convert: Callable[[str], Any], several: bool = False) -> Callable[[str], Any]:
    """`convert` for a word, or each of several, with its own words for a fault, which argparse would drop."""

    def converted(text: str) -> Any:
        try:
            return [convert(word) for word in text.split(_WORD_END)] if several else convert(text)
        except ValueError as error:
            hint = f": {lookalike(text)}" if any(character in LOOKALIKES for character in text) else ""
            raise argparse.ArgumentTypeError(f"{error}{hint}") from None

    return converted


def number(text: str) -> float:
    """A finite number as an option's value."""
    try:
        value = read_number(text)
    except ValueError:
        value = math.nan
    if not math.isfinite(value):
        raise ValueError(f"expected a finite number, found {shown_word(text)}")
    return value


def positive_whole_number(text: str) -> int:
    value = read_whole(text)
    if value < 1:
        raise ValueError(f"expected a whole number above 0, found {shown_word(text)}")
    return value


def size_in_bytes(text: str) -> int:
    """A number of bytes as an option's value: 1048576, 1024K, 1M."""
    digits, unit = (text[:-1], text[-1].upper()) if text[-1:].upper() in tuple("KMG") else (text, "")
    if not digits.isascii() or not digits.isdigit() or len(digits) > 15:
        raise ValueError(f"expected a size such as 500000, 64M or 2G, found {shown_word(text)}")
    return int(digits) << {"": 0, "K": 10, "M": 20, "G": 30}[unit]
