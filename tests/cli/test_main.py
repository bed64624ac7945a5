"""The command line as a person meets it: help, versions, mistakes."""

import subprocess
import sys

import pytest

import cplsr
from cplsr.cli import VERBS, main
from cplsr.errors import InputError

HEAVY = [
    "torch",
    "transformers",
    "sklearn",
    "scipy",
    "datasets",
    "matplotlib",
    "pandas",
    "accelerate",
    "peft",
    "gradio",
]


def run(*words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, "-m", "cplsr", *words], capture_output=True, text=True, check=False)


def test_help_names_every_command(capsys):
    assert main(["--help"]) == 0
    text = capsys.readouterr().out
    assert all(verb in text for verb in VERBS)


@pytest.mark.parametrize("words", [["--help"], *([verb, "--help"] for verb in VERBS)], ids=" ".join)
def test_help_imports_nothing_heavy(words):
    code = (
        "import sys\nfrom cplsr.cli import main\n"
        f"try:\n    code = main({words!r})\nexcept SystemExit as end:\n    code = end.code\n"
        f"print('HEAVY', [name for name in {HEAVY!r} if name in sys.modules], code or 0)"
    )
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert result.stdout.strip().endswith("HEAVY [] 0"), result.stdout[-500:]


def test_version():
    result = run("--version")
    assert (result.returncode, result.stdout.strip()) == (0, f"cplsr {cplsr.__version__}")


@pytest.mark.parametrize(
    ("words", "said"), [(["inof"], "did you mean 'info'"), (["zzz"], "--help"), (["info", "--jsn"], "--json")]
)
def test_a_mistyped_word_is_a_sentence_and_exit_code_2(words, said):
    result = run(*words)
    assert result.returncode == 2
    assert said in result.stderr + result.stdout
    assert "Traceback" not in result.stderr


def test_an_input_error_inside_a_command_is_a_sentence(monkeypatch, capsys):
    def fail(arguments):
        raise InputError("seven shots were asked for: lower --shot")

    monkeypatch.setattr("cplsr.cli.info.main", fail)
    assert main(["info"]) == 2
    assert capsys.readouterr().err == "cplsr: seven shots were asked for: lower --shot\n"


def test_an_interrupt_is_quiet(monkeypatch, capsys):
    def stop(arguments):
        raise KeyboardInterrupt

    monkeypatch.setattr("cplsr.cli.info.main", stop)
    assert main(["info"]) == 130
    assert "Traceback" not in capsys.readouterr().err


def test_a_reader_that_goes_away_is_no_traceback():
    result = subprocess.run(
        f"{sys.executable} -m cplsr info | head -c 1", shell=True, capture_output=True, text=True, check=False
    )
    assert "Traceback" not in result.stderr


def test_public_names_are_there_and_others_are_not():
    for name in cplsr.__all__:
        assert getattr(cplsr, name) is not None
    with pytest.raises(AttributeError, match="No cplsr attribute nothing"):
        cplsr.nothing  # noqa: B018
