"""`cplsr completion`: what a shell offers after a few letters."""

import shutil
import subprocess

import pytest

from cplsr.cli import VERBS, main
from cplsr.cli.completion import script

ASK = """
cd "$2" && source "$1" && shift 2
COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); COMPREPLY=()
_cplsr
printf '%s\\n' "${COMPREPLY[@]}"
"""


@pytest.fixture(scope="module")
def offered(tmp_path_factory):
    """What bash offers in a folder with a folder `recipes`; nothing where it is left to complete files by itself."""
    if shutil.which("bash") is None or shutil.which("python3") is None:
        pytest.skip("there is no bash, or no python3 for it")
    folder = tmp_path_factory.mktemp("completion")
    (folder / "recipes").mkdir()
    file = folder / "cplsr.bash"
    file.write_text(script("bash"), encoding="utf-8")

    def ask(*words):
        command = ["bash", "--norc", "-c", ASK, "bash", str(file), str(folder), "cplsr", *words]
        return subprocess.run(command, capture_output=True, text=True, check=True).stdout.split()

    return ask


def test_commands_and_options_are_offered(offered):
    assert offered("cl") == ["classify"]
    assert set(offered("")) >= set(VERBS)
    assert offered("classify", "--su") == ["--support"]
    assert offered("data", "do") == ["doctor"]
    assert set(offered("cache", "")) >= {"info", "clear"}


def test_choices_are_offered(offered):
    assert offered("train", "--head", "") == ["prototypes", "ridge"]


def test_long_explanations_are_not_offered(offered):
    assert sorted(offered("train", "--method")) == ["--method", "--method-options"]


def test_files_are_left_to_the_shell(offered):
    assert offered("report", "rec") == []
    assert offered("report", "") == []
    assert offered("classify", "--support", "rec") == []


def test_zsh_counts_from_one():
    text = script("zsh")
    assert text.startswith("#compdef cplsr")
    assert '"$((CURRENT - 1))"' in text


def test_another_shell_is_refused(capsys):
    with pytest.raises(SystemExit):
        main(["completion", "fish"])
    assert "bash" in capsys.readouterr().err
