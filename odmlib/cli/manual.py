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
from collections.abc import Iterator, Sequence
from importlib import import_module
from pathlib import Path

from odmlib._version import __version__
from odmlib.cli.parser import ToolParser
from odmlib.cli.tables import GROUP as TABLES

MODULES = sorted(path.stem for path in Path(__file__).parent.glob("[a-z]*.py") if path.stem != "manual")
PLAIN = "options"  # the group of options that name none
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
    """Its own options, and those of its kinds."""
    own = [action for action in parser._actions if action.option_strings]
    more = {action.option_strings[-1]: action for action, _ in reversed(options_of_kinds(parser))}
    return own + list(reversed(more.values()))


def options_of_kinds(parser: ToolParser) -> list[tuple[Action, list[str]]]:
    """What the kinds have that no other tool has, each with the kinds that have it."""
    found: dict[tuple[str, str], tuple[Action, list[str]]] = {}
    for kind, make in parser.kinds.items():
        for group in make()._action_groups:
            for action in group._group_actions if group.title in (PLAIN, TABLES) else ():
                if action.option_strings:
                    key = action.option_strings[-1], explanation(parser, action)
                    found.setdefault(key, (action, []))[1].append(kind)
    return list(found.values())


def values_of(parser: ToolParser) -> dict[str, Sequence[str]]:
    """The words that a flag takes."""
    found: dict[str, Sequence[str]] = {}
    for one in (*(make() for make in parser.kinds.values()), parser):
        found |= {flag: words for flag, words in one.values.items() if words}
    return found


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
            lines += _described(action, explanation(parser, action))
    if of_kinds := options_of_kinds(parser):
        lines.append(".SH OPTIONS OF THE KINDS")
        for action, kinds in of_kinds:
            where = "" if len(kinds) == len(parser.kinds) else f" ({', '.join(kinds)})"
            lines += _described(action, explanation(parser, action) + where)
    if parser.epilog:
        title, _, text = parser.epilog.partition("\n")
        lines += [f".SH {_troff(title.rstrip(':').upper())}", *_plain(text.rstrip())]
    lines += [".SH SEE ALSO", "The manual of odmlib: docs/commands in its sources, one page for each tool."]
    return "\n".join(lines) + "\n"


def _described(action: Action, text: str) -> list[str]:
    value = f" \\fI{_troff(str(action.metavar))}\\fR" if action.metavar else ""
    flags = ", ".join(f"\\fB{_troff(flag)}\\fR{value}" for flag in action.option_strings)
    return [".TP", flags, _troff(text)]


def _plain(text: str) -> list[str]:
    """Lines that stay as they are."""
    return [".nf", *(_troff(line) for line in text.splitlines()), ".fi"]


def _troff(text: str) -> str:
    escaped = text.replace("\\", "\\e").replace("-", "\\-")
    return "\\&" + escaped if escaped.startswith((".", "'")) else escaped


# ---------------------------------------------------------------------------------------- completion


def bash_completion(parser: ToolParser) -> str:
    function = "_" + parser.prog.replace("-", "_")
    cases, known = [], values_of(parser)
    for action in options_of(parser):
        if values := known.get(action.option_strings[0]):
            flags = "|".join(action.option_strings)
            words = " ".join(values)
            cases.append(f'    {flags}) COMPREPLY=($(compgen -W "{words}" -- "$word")); return ;;')
    flags = " ".join(flag for action in options_of(parser) for flag in action.option_strings)
    kinds = f'COMPREPLY=($(compgen -W "{" ".join(parser.kinds)}" -- "$word"))'
    first = f'  [ "$COMP_CWORD" = 1 ] && {kinds} && return'
    return "\n".join(
        [
            f"# completion of {parser.prog} for bash; made by python -m odmlib.cli.manual",
            f"{function}() {{",
            '  local word="${COMP_WORDS[COMP_CWORD]}" before="${COMP_WORDS[COMP_CWORD-1]}"',
            '  case "$before" in',
            *cases,
            "  esac",
            *([first] if parser.kinds else []),
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
    known = values_of(parser)
    for action in options_of(parser):
        text = _quoted(explanation(parser, action).replace("[", "(").replace("]", ")"))
        values = known.get(action.option_strings[0])
        names = str(action.metavar or "").split()
        rest = ""
        for place, name in enumerate(names):
            told = f"({' '.join(values)})" if values and not place else "_files"
            rest += f":{_quoted(name)}:{told}"
        lines += [f"  '*{flag}[{text}]{rest}' \\" for flag in action.option_strings]
    if parser.kinds:
        lines.append(f"  '1:KIND:({' '.join(parser.kinds)})' \\")
    return "\n".join([*lines, "  '*:file:_files'", ""])


def _quoted(text: str) -> str:
    """Inside of single quotes of zsh's _arguments."""
    return text.replace("\\", "\\\\").replace("'", "'\\''").replace(":", "\\:")


def fish_completion(parser: ToolParser) -> str:
    lines = [f"# completion of {parser.prog} for fish; made by python -m odmlib.cli.manual"]
    if parser.kinds:
        lines.append(f"complete -c {parser.prog} -n __fish_use_subcommand -x -a '{' '.join(parser.kinds)}'")
    known = values_of(parser)
    for action in options_of(parser):
        words = [f"complete -c {parser.prog}"]
        for flag in action.option_strings:
            kind = "-l" if flag.startswith("--") else "-s" if len(flag) == 2 else "-o"
            words.append(f"{kind} {flag.lstrip('-')}")
        text = explanation(parser, action).replace("\\", "\\\\").replace("'", "\\'")
        words.append(f"-d '{text}'")
        if values := known.get(action.option_strings[0]):
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
