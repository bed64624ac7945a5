"""The end of `cplsr demo`: the page, what was gained in plain words, what to try next."""

import io
from pathlib import Path

from oracles import report_inputs
from PIL import Image
from rich.console import Console

from cplsr.cli import VERBS
from cplsr.cli.demo import NEXT, Demo, close, first_images, outcome
from cplsr.data.open import open_domain
from cplsr.records.results import PairedRow, Results
from cplsr.training.loop import TrainingResult


def result(folder):
    return TrainingResult(folder, 51.4, 53.4, 40, 53.0, 46.0)


def test_the_closing_screen_and_the_page(tmp_path):
    results = report_inputs.results(("leaf", "digits"))
    results.write(tmp_path / "results.json")
    run = report_inputs.write_run(tmp_path / "run")
    console = Console(file=io.StringIO(), width=100, record=True, highlight=False, soft_wrap=True)
    close(results, result(run), Demo(out=tmp_path), console)
    said = console.export_text()
    assert "gained 0.00 points" in said
    assert "Of 4 comparisons 2 are clearly better, 2 clearly worse, 0 within chance." in said
    assert "Better on: leaf." in said
    assert "Worse on: digits." in said
    assert "51.40 % before, 53.40 %" in said
    assert str(tmp_path / "report.html") in said
    page = (tmp_path / "report.html").read_text(encoding="utf-8")
    assert "Accuracy" in page
    assert "Training" in page


def test_other_files_in_the_folder_are_left_alone(tmp_path):
    results = report_inputs.results(("leaf",))
    results.write(tmp_path / "results.json")
    (tmp_path / "notes.json").write_text("{")
    close(results, result(report_inputs.write_run(tmp_path / "run")), Demo(out=tmp_path), Console(file=io.StringIO()))
    assert (tmp_path / "report.html").is_file()


def test_a_loss_is_told_as_a_loss(tmp_path):
    rows = tuple(PairedRow("CPLSR", "frozen", target, 5, -2.0, half, 0.4) for target, half in (("a", 0.5), ("b", 3.0)))
    said = outcome(Results(rows=(), paired=rows), result(tmp_path))
    assert "lost 2.00 points" in said
    assert "Of 2 comparisons 0 are clearly better, 1 clearly worse, 1 within chance." in said
    assert "Better" not in said
    assert "Worse on: a." in said


def test_the_next_steps_are_commands_that_exist():
    verbs = [line.split()[1] for line in NEXT.splitlines() if line.strip().startswith("cplsr ")]
    assert verbs == ["check", "classify", "evaluate", "train", "report"]
    assert set(verbs) <= VERBS.keys()


def test_first_images_of_every_class(tmp_path):
    for name, count in (("a", 5), ("b", 2)):
        (tmp_path / name).mkdir()
        for number in range(count):
            Image.new("RGB", (8, 8)).save(tmp_path / name / f"{number}.png")
    domain = first_images(open_domain(str(tmp_path)), 3)
    assert domain.labels.tolist() == [0, 0, 0, 1, 1]
    assert [Path(domain.image_name(index)).name for index in range(3)] == ["0.png", "1.png", "2.png"]
