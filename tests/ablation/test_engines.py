"""Jobs on either engine; what fails does not stop the others, and what is shared is made once."""

import json
import socket
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from PIL import Image
from safetensors.torch import load_file

from cplsr.ablation import engines
from cplsr.ablation.engines import run_local, run_on_ray
from cplsr.ablation.plan import plan_runs, read_rows
from cplsr.ablation.run import Job, read_records, state_of
from cplsr.ablation.workspace import Workspace
from cplsr.adapters.store import read_adapter_info
from cplsr.backbones.load import load_backbone
from cplsr.engines import import_ray
from cplsr.errors import InputError
from cplsr.evaluation.evaluate import evaluate
from cplsr.settings.ablation import RaySettings

ROWS = {
    "CP": {"adapter_options": {"sharing": "shared"}},
    "broken": {"adapter_options": {"layers": [9]}},
    "frozen": {"adapter": "frozen"},
}


@pytest.fixture
def runs(common):
    return plan_runs(read_rows(ROWS), common, shots=[2], seeds=[0])


def jobs_of(runs, setup, out):
    return [Job.of(run, setup, out) for run in runs]


def test_what_fails_is_told_and_the_others_go_on(runs, setup, tmp_path):
    jobs = jobs_of(runs, setup, tmp_path / "out")
    ended = list(run_local(jobs, Workspace(setup)))
    assert [outcome.job.run.row for outcome in ended] == ["CP", "broken", "frozen"]
    assert ended[0].error is None
    assert "layers [9] do not exist" in (ended[1].error or "")
    assert ended[2].error is None
    records = read_records(tmp_path / "out", ["frozen", "CP"])
    assert [record.row for record in records] == ["frozen", "CP"]
    frozen, trained = records
    assert frozen.training is None
    assert trained.training["parameters"] == 2 * 32 * 32
    assert {row.method for row in trained.results.rows} == {"frozen", "CP"}
    own = next(row for row in trained.results.rows if row.method == "frozen")
    assert own.accuracy == frozen.results.rows[0].accuracy  # the same episodes
    assert [state_of(job) for job in jobs] == ["finished", "not begun", "finished"]


def test_an_unexpected_error_is_one_line(runs, setup, tmp_path, monkeypatch):
    def fail(job, workspace):
        raise RuntimeError("out of memory\nand much more")

    monkeypatch.setattr(engines, "perform", fail)
    ended = list(run_local(jobs_of(runs, setup, tmp_path), Workspace(setup)))
    assert [outcome.error for outcome in ended] == ["RuntimeError: out of memory"] * 3


def test_targets_are_checked_before_anything_is_trained(runs, setup, tmp_path):
    setup = replace(setup, evaluation_query=40)
    with pytest.raises(InputError, match="T: 2-way episodes need"):
        list(run_local(jobs_of(runs, setup, tmp_path / "out"), Workspace(setup)))
    assert not (tmp_path / "out").exists()


def test_other_settings_under_the_same_name_are_refused(runs, setup, common, tmp_path):
    list(run_local(jobs_of(runs[:1], setup, tmp_path / "out"), Workspace(setup)))
    changed = replace(runs[0], settings=replace(common, lr=0.5, shot=2))
    with pytest.raises(InputError, match=r"finished with other settings \(lr: 0.001, now 0.5;"):
        state_of(Job.of(changed, setup, tmp_path / "out"))
    moved = Job.of(runs[0], replace(setup, evaluation_episodes=21, workers=1, device="auto"), tmp_path / "out")
    with pytest.raises(InputError, match=r"other settings \(evaluation_episodes: 20, now 21;"):
        state_of(moved)
    (tmp_path / "out" / f"{runs[0].name}.json").unlink()
    with pytest.raises(InputError, match=r"begun with other settings \(lr: 0.001, now 0.5;"):
        state_of(Job.of(changed, setup, tmp_path / "out"))


def test_caches_are_filled_once_for_all(runs, setup, common, tmp_path, monkeypatch):
    more = plan_runs(read_rows({"a": {}, "b": {"sst": False}, "c": {"pe": False}}), common, shots=[2], seeds=[0])
    Workspace(setup).fill_caches([*runs, *more])
    monkeypatch.setattr("cplsr.training.base_statistics._compute", None)
    monkeypatch.setattr("cplsr.data.decoded_images._decode_to", None)
    fresh = Workspace(setup)
    ended = list(run_local(jobs_of(more, setup, tmp_path / "out"), fresh))
    assert [outcome.error for outcome in ended] == [None, None, None]
    assert fresh.backbone.adapter is None


def test_held_out_classes_follow_the_seed_and_a_named_validation_domain_beats_them(setup, domains, common):
    held = [Workspace(setup).training_domains(replace(common, seed=seed))[1].classes for seed in range(6)]
    assert len(set(held)) > 1
    base, val = Workspace(replace(setup, val=str(domains / "target"))).training_domains(common)
    assert (len(base.classes), len(val.classes)) == (6, 6)


def test_two_targets_of_one_name_are_refused(setup, domains):
    twice = replace(setup, targets=((None, str(domains / "target")), ("target", str(domains / "base"))))
    with pytest.raises(InputError, match="two targets are called 'target'"):
        Workspace(twice).targets  # noqa: B018


def test_ray_does_what_the_local_engine_does(runs, setup, tmp_path: Path):
    pytest.importorskip("ray")
    alone, spread = tmp_path / "alone", tmp_path / "spread"
    list(run_local(jobs_of(runs, setup, alone), Workspace(setup)))
    ended = list(run_on_ray(jobs_of(runs, setup, spread), RaySettings(ray_workers=2)))
    errors = {outcome.job.run.row: outcome.error for outcome in ended}
    assert errors["CP"] is None
    assert errors["frozen"] is None
    assert "layers [9] do not exist" in errors["broken"]
    for name in ("cp-2shot-seed0.json", "frozen-2shot-seed0.json"):
        one, two = (json.loads((out / name).read_text()) for out in (alone, spread))
        assert one["results"]["rows"] == two["results"]["rows"]
    one, two = (load_file(out / "runs" / "cp-2shot-seed0" / "last" / "adapter.safetensors") for out in (alone, spread))
    assert all((one[name] == two[name]).all() for name in one)


def test_a_cluster_that_is_not_there_is_a_sentence(runs, setup, tmp_path):
    pytest.importorskip("ray")
    with socket.socket() as taken:  # bound, and nobody listens
        taken.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{taken.getsockname()[1]}"
        with pytest.raises(InputError, match=f"no ray cluster at '{address}'"):
            list(run_on_ray(jobs_of(runs, setup, tmp_path), RaySettings(ray_address=address)))


def test_a_missing_ray_is_a_sentence(monkeypatch):
    monkeypatch.setitem(sys.modules, "ray", None)
    with pytest.raises(InputError, match=r"pip install 'cplsr\[ray\]'"):
        import_ray()


def test_an_unreadable_image_does_not_stop_a_run(runs, setup, domains, tmp_path):
    broken = next((domains / "target").glob("*/0.png"))
    broken.write_bytes(b"\x89PNG\r\n\x1a\nbroken")
    Image.fromarray(np.zeros((32, 32, 3), dtype=np.uint8)).save(domains / "target" / "class 1" / "more.png")
    with pytest.warns(UserWarning, match="cannot be read"):
        ended = list(run_local(jobs_of(runs[2:], setup, tmp_path / "out"), Workspace(setup)))
    assert ended[0].error is None


def test_rows_are_read_as_they_say_and_else_as_they_were_trained(setup, common, tmp_path):
    rows = {
        "frozen": {"adapter": "frozen"},
        "frozen deep": {"adapter": "frozen", "pooling": "depth", "head": "ridge"},
        "paper's, read deep": {"read_pooling": "depth", "read_head": "ridge"},
        "deep": {"pooling": "depth", "head": "ridge"},
    }
    runs = plan_runs(read_rows(rows), common, shots=[2], seeds=[0])
    jobs = jobs_of(runs, setup, tmp_path / "out")
    workspace = Workspace(setup)
    assert [outcome.error for outcome in run_local(jobs, workspace)] == [None] * 4
    assert (workspace.backbone.pooling, workspace.backbone.adapter) == ("cls", None)
    assert [state_of(job) for job in jobs] == ["finished"] * 4
    plain, deep, read, trained = read_records(tmp_path / "out", rows)
    assert "read_pooling" not in plain.setup
    assert (read.setup["read_pooling"], read.setup["read_head"]) == ("depth", "ridge")
    assert read_adapter_info(jobs[2].folder).backbone["pooling"] == "cls"
    assert read_adapter_info(jobs[3].folder).backbone["pooling"] == "depth"
    wanted = evaluate(
        load_backbone(setup.backbone, heads=2, pooling="depth"),
        workspace.targets,
        adapters=[("own", jobs[2].folder)],
        heads=["ridge"],
        settings=setup.evaluation(runs[2].settings),
    )
    figures = [row.accuracy for row in wanted.rows]
    assert [(row.method, row.accuracy) for row in read.results.rows] == [
        ("frozen", figures[0]),
        ("paper's, read deep", figures[1]),
    ]
    assert [(row.method, row.against) for row in trained.results.paired] == [("deep", "frozen")]
    assert deep.results.rows[0].accuracy == figures[0]
    changed = Job.of(replace(runs[2], read_head="lda"), setup, tmp_path / "out")
    with pytest.raises(InputError, match="read_head: ridge, now lda"):
        state_of(changed)


def test_a_row_with_an_unknown_head_is_refused_before_anything_is_trained(common):
    with pytest.raises(InputError, match=r"row 'a': there is no head 'rigde'"):
        plan_runs(read_rows({"a": {"read_head": "rigde"}}), common, shots=[2], seeds=[0])


def test_a_setting_that_came_later_is_named_only_where_it_is_not_the_default(runs, setup, tmp_path):
    """Or ablations begun before it would be refused as made with other settings."""
    usual = Job.of(runs[0], setup, tmp_path).figure_settings()["setup"]
    assert not {"layers", "views", "best_on_target"} & usual.keys()
    turned = Job.of(runs[0], replace(setup, views="turned"), tmp_path).figure_settings()["setup"]
    assert turned == usual | {"views": "turned"}
