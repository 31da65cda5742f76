"""Manual pages and completion for shells, made from the parsers of the tools.

    python -m odmlib.cli.manual FOLDER

writes FOLDER/man/man1/odm-*.1, and completion for bash, zsh and fish where each of them looks for it:
FOLDER/bash-completion/completions, zsh/site-functions and fish/vendor_completions.d. The build of the package
does the same for its share folder.
"""

from __future__ import annotations

import re
import sys
from argparse import Action
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path

from odmlib._version import __version__
from odmlib.cli.parser import ToolParser

MODULES = sorted(path.stem for path in Path(__file__).parent.glob("[a-z]*.py") if path.stem != "manual")
BASH = "bash-completion/completions"
ZSH = "zsh/site-functions"
FISH = "fish/vendor_completions.d"


def parsers() -> Iterator[ToolParser]:
    """The parser of every tool."""
    for name in MODULES:
        module = import_module(f"odmlib.cli.{name}")
        if hasattr(module, "PROGRAM") and hasattr(module, "make_parser"):
            yield module.make_parser()


def files() -> Iterator[tuple[str, str]]:
    """Names below a share folder, and texts."""
    for parser in parsers():
        yield f"man/man1/{parser.prog}.1", manual_page(parser)
        yield f"{BASH}/{parser.prog}", bash_completion(parser)
        yield f"{ZSH}/_{parser.prog}", zsh_completion(parser)
        yield f"{FISH}/{parser.prog}.fish", fish_completion(parser)


def write_files(folder: Path) -> list[Path]:
    written = []
    for name, text in files():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
        written.append(path)
    return written


def options_of(parser: ToolParser) -> list[Action]:
    return [action for action in parser._actions if action.option_strings]


def explanation(parser: ToolParser, action: Action) -> str:
    return (action.help or "").replace("%%", "%")


# ---------------------------------------------------------------------------------------- manual page


def manual_page(parser: ToolParser) -> str:
    """The page as troff's man macros have it."""
    name, usage = parser.prog, str(parser.usage)
    description = (parser.description or "").strip()
    purpose = " ".join(re.split(r"[.:;](?=\s|$)", description)[0].split())
    lines = [
        f'.TH {name.upper()} 1 "" "odmlib {__version__}" "User Commands"',
        ".SH NAME",
        f"{_troff(name)} \\- {_troff(purpose)}",
        ".SH SYNOPSIS",
        f".B {_troff(name)}",
        _troff(usage.removeprefix(name).strip()),
        ".SH DESCRIPTION",
        *_plain(description),
    ]
    for group in parser._action_groups:
        options = [action for action in group._group_actions if action.option_strings]
        if options:
            lines.append(f".SH {_troff(str(group.title).upper())}")
        for action in options:
            value = f" \\fI{_troff(str(action.metavar))}\\fR" if action.metavar else ""
            flags = ", ".join(f"\\fB{_troff(flag)}\\fR{value}" for flag in action.option_strings)
            lines += [".TP", flags, _troff(explanation(parser, action))]
    if parser.epilog:
        title, _, text = parser.epilog.partition("\n")
        lines += [f".SH {_troff(title.rstrip(':').upper())}", *_plain(text.rstrip())]
    lines += [".SH SEE ALSO", "The manual of odmlib: docs/commands in its sources, one page for each tool."]
    return "\n".join(lines) + "\n"


def _plain(text: str) -> list[str]:
    """Lines that stay as they are."""
    return [".nf", *(_troff(line) for line in text.splitlines()), ".fi"]


def _troff(text: str) -> str:
    escaped = text.replace("\\", "\\e").replace("-", "\\-")
    return "\\&" + escaped if escaped.startswith((".", "'")) else escaped


# ---------------------------------------------------------------------------------------- completion


def bash_completion(parser: ToolParser) -> str:
    function = "_" + parser.prog.replace("-", "_")
    cases = []
    for action in options_of(parser):
        if values := parser.values[action.option_strings[0]]:
            flags = "|".join(action.option_strings)
            words = " ".join(values)
            cases.append(f'    {flags}) COMPREPLY=($(compgen -W "{words}" -- "$word")); return ;;')
    flags = " ".join(flag for action in options_of(parser) for flag in action.option_strings)
    return "\n".join(
        [
            f"# completion of {parser.prog} for bash; made by python -m odmlib.cli.manual",
            f"{function}() {{",
            '  local word="${COMP_WORDS[COMP_CWORD]}" before="${COMP_WORDS[COMP_CWORD-1]}"',
            '  case "$before" in',
            *cases,
            "  esac",
            '  case "$word" in',
            f'    -*) COMPREPLY=($(compgen -W "{flags}" -- "$word")) ;;',
            '    *) COMPREPLY=($(compgen -f -- "$word")) ;;',
            "  esac",
            "}",
            f"complete -o filenames -F {function} {parser.prog}",
            "",
        ]
    )


def zsh_completion(parser: ToolParser) -> str:
    lines = [f"#compdef {parser.prog}", f"# made by python -m odmlib.cli.manual for odmlib {__version__}"]
    lines.append("_arguments \\")
    for action in options_of(parser):
        text = _quoted(explanation(parser, action).replace("[", "(").replace("]", ")"))
        values = parser.values[action.option_strings[0]]
        names = str(action.metavar or "").split()
        rest = ""
        for place, name in enumerate(names):
            told = f"({' '.join(values)})" if values and not place else "_files"
            rest += f":{_quoted(name)}:{told}"
        lines += [f"  '*{flag}[{text}]{rest}' \\" for flag in action.option_strings]
    return "\n".join([*lines, "  '*:file:_files'", ""])


def _quoted(text: str) -> str:
    """Inside of single quotes of zsh's _arguments."""
    return text.replace("\\", "\\\\").replace("'", "'\\''").replace(":", "\\:")


def fish_completion(parser: ToolParser) -> str:
    lines = [f"# completion of {parser.prog} for fish; made by python -m odmlib.cli.manual"]
    for action in options_of(parser):
        words = [f"complete -c {parser.prog}"]
        for flag in action.option_strings:
            kind = "-l" if flag.startswith("--") else "-s" if len(flag) == 2 else "-o"
            words.append(f"{kind} {flag.lstrip('-')}")
        text = explanation(parser, action).replace("\\", "\\\\").replace("'", "\\'")
        words.append(f"-d '{text}'")
        if values := parser.values[action.option_strings[0]]:
            words.append(f"-x -a '{' '.join(values)}'")
        elif action.metavar:
            words.append("-r")
        lines.append(" ".join(words))
    return "\n".join([*lines, ""])


def main() -> int:
    if len(sys.argv) != 2:
        print("usage: python -m odmlib.cli.manual FOLDER", file=sys.stderr)
        return 2
    for path in write_files(Path(sys.argv[1])):
        print(path)
    return 0


if __name__ == "__main__":
    sys.exit(main())
