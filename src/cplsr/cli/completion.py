"""`cplsr completion`: what lets a shell complete commands and options."""

from __future__ import annotations

import contextlib
import importlib
import io
from dataclasses import dataclass
from typing import Annotated, Any, Literal, Union

import tyro

from cplsr.cli import VERBS
from cplsr.cli.data import Doctor
from cplsr.cli.options import parse
from cplsr.declared import Declared


@dataclass(frozen=True)
class NoOptions(Declared):
    """Nothing more can be said."""


WORDS: dict[str, dict[str, type[Declared]]] = {
    "data": {"list": NoOptions, "doctor": Doctor},
    "cache": {"info": NoOptions, "clear": NoOptions},
    "completion": {"bash": NoOptions, "zsh": NoOptions},
}
"""Commands that take another word, and the options behind it."""

# tyro has options and choices, but no files behind words that are no options, and takes folders for finished words.
FILES = {
    "bash": """
_cplsr() {
  local word="${COMP_WORDS[COMP_CWORD]}" reply
  _tyro_cplsr "$@"
  for reply in "${COMPREPLY[@]}"; do
    [[ -n "$reply" && ( "$reply" != -* || "$word" == -* ) && ( $COMP_CWORD -eq 1 || ! -e "$reply" ) ]] && return
  done
  COMPREPLY=()
}
complete -o bashdefault -o default -F _cplsr cplsr
""",
    "zsh": """
(( compstate[nmatches] )) || _files
""",
}


@dataclass(frozen=True, kw_only=True)
class Completion(Declared):
    """Print a script that lets the shell complete commands, options, their choices and files.

    bash: cplsr completion bash > ~/.local/share/bash-completion/completions/cplsr
    zsh: cplsr completion zsh > FOLDER/_cplsr, for a FOLDER of $fpath
    """

    shell: tyro.conf.Positional[Literal["bash", "zsh"]]
    """The shell it is for."""


def main(arguments: list[str]) -> int:
    """Parse the options and print the script."""
    print(script(parse(Completion, "completion", arguments).shell), end="")
    return 0


def script(shell: str) -> str:
    """Write down all commands and options in the language of a shell."""
    text = io.StringIO()
    with contextlib.redirect_stdout(text):
        try:
            tyro.cli(_one_of(_options()), args=["--tyro-print-completion", shell], prog="cplsr")
        except SystemExit as left:  # as it does when it has printed the script
            if left.code:
                raise
    return _mended(text.getvalue()) + FILES[shell]


def _mended(text: str) -> str:
    """Put right what tyro 1.0 gets wrong: zsh counts words from one, and a completion is one line."""
    lines = text.replace('"$CURRENT"', '"$((CURRENT - 1))"').rstrip().split("\n")
    return (
        "\n".join(line.replace(r"\n", " ") if line.startswith("COMPLETION_SPEC = ") else line for line in lines) + "\n"
    )


def _options() -> dict[str, Any]:
    """What stands behind each command: a class of options, called like it, or another word."""
    return {
        verb: _one_of(WORDS[verb])
        if verb in WORDS
        else getattr(importlib.import_module(f"cplsr.cli.{verb}"), verb.capitalize())
        for verb in VERBS
    }


def _one_of(commands: dict[str, Any]) -> Any:
    return Union[tuple(Annotated[kind, tyro.conf.subcommand(name)] for name, kind in commands.items())]  # noqa: UP007
