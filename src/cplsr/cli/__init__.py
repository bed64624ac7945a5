"""The command line: one file per verb, and nothing imported before it is needed."""

from __future__ import annotations

import importlib
import os
import sys
import warnings
from collections.abc import Sequence

from cplsr.errors import InputError
from cplsr.version import __version__

VERBS = {
    "demo": "the whole job in a few minutes: train, then measure on domains never seen; no network",
    "train": "train an adapter on a base domain",
    "evaluate": "accuracy of a frozen backbone and of adapters on target domains",
    "ablate": "many trainings, one table: the paper's ablation, or your own",
    "analyze": "what an adapter changed: bound terms, attention, spectra, pictures",
    "report": "one self-contained page of runs, results and analyses",
    "published": "the paper's tables",
    "classify": "label your images from a few examples of each class",
    "embed": "images to vectors on disk, by many processes or machines, for classify and evaluate",
    "check": "what to expect from your examples, before labelling anything",
    "suggest": "which of your images to label next, because their labels would teach most",
    "serve": "the same in the browser",
    "export": "a trained adapter as an ordinary model: transformers, ONNX, timm",
    "data": "data sets: what is known, what is wrong with yours",
    "cache": "what is kept on disk to save time, and how to be rid of it",
    "completion": "a script for bash or zsh that completes commands and options",
    "info": "what this machine offers: device, number format, caches, installed extras",
}

EXIT_BAD_INPUT = 2
EXIT_INTERRUPTED = 130


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command, by default that of this process; mistakes that a user can put right are one sentence.

    Returns:
        The exit code: 0 if all went well, 2 after a mistake, 130 after Ctrl-C; some commands have others.
    """
    try:
        with warnings.catch_warnings():
            warnings.showwarning = _show_warning
            code = _run(list(sys.argv[1:] if arguments is None else arguments))
        print(end="", flush=True)
        return code
    except InputError as error:
        print(f"cplsr: {error}", file=sys.stderr)
        return EXIT_BAD_INPUT
    except KeyboardInterrupt:
        print("cplsr: interrupted", file=sys.stderr)
        return EXIT_INTERRUPTED
    except BrokenPipeError:
        _leave_stdout()
        return 1
    except OSError as error:
        from cplsr.files import FULL

        if error.filename is None and error.errno not in FULL:
            raise  # no file is to blame that a user could see to
        print(f"cplsr: {error.filename or 'the output'} cannot be used ({error.strerror})", file=sys.stderr)
        _leave_stdout()
        return EXIT_BAD_INPUT


def _leave_stdout() -> None:
    """Point stdout at nothing, where nobody takes it any more, so that the interpreter's last flush is quiet."""
    try:
        print(end="", flush=True)
    except OSError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _run(typed: list[str]) -> int:
    verb, *arguments = typed or ["--help"]
    if verb in ("-h", "--help"):
        print(_help())
        return 0
    if verb in ("-V", "--version"):
        print(f"cplsr {__version__}")
        return 0
    if verb not in VERBS:
        from difflib import get_close_matches

        near = get_close_matches(verb, VERBS, n=1)
        hint = f"did you mean {near[0]!r}?" if near else "'cplsr --help' lists them"
        raise InputError(f"there is no command {verb!r}: {hint}")
    module = importlib.import_module(f"cplsr.cli.{verb}")
    return int(module.main(arguments))


def _help() -> str:
    lines = [
        "usage: cplsr COMMAND [options]     (cplsr COMMAND --help tells its options)",
        "",
        "Few labelled images per class, from a domain the network has never seen.",
        "",
        *(f"  {verb:<10} {summary}" for verb, summary in VERBS.items()),
        "",
        "  --version  print the version",
    ]
    return "\n".join(lines)


def _show_warning(message: Warning | str, category: type[Warning], *rest: object, **more: object) -> None:
    """Warnings meant for users as one line; those between libraries are not shown."""
    if category is UserWarning:
        print(f"cplsr: note: {message}", file=sys.stderr)
