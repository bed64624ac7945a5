"""How far a run has come, as an objective counts it: from 0 to the end, and the same after an interruption."""

import pytest

from cplsr import TrainingSettings, load_backbone, train
from cplsr.methods import afa

SETTINGS = TrainingSettings(
    way=2, shot=2, query=2, episodes=8, lr=1e-4, objective_lr=1e-3, validation_episodes=8, validate_every=0,
    pe=False, sst=False,
)  # fmt: skip


def test_the_ramp_spans_the_run_and_goes_on_where_it_stopped(checkpoint_file, tiny, tmp_path, monkeypatch):
    monkeypatch.setattr("cplsr.training.run.SAVE_SECONDS", 0.0)
    seen: list[float] = []
    stop_at = None

    def watched(progress: float) -> float:
        if progress == stop_at:
            raise KeyboardInterrupt
        seen.append(progress)
        return real(progress)

    real = afa.ramp
    monkeypatch.setattr(afa, "ramp", watched)

    def go(name: str) -> bytes:
        backbone = load_backbone(checkpoint_file, heads=2)
        objective = afa.AdversarialAugmentation()
        train(
            backbone, tiny, out=tmp_path / name, adapter="full", settings=SETTINGS, objective=objective, workers=0,
            resume=True,
        )  # fmt: skip
        return (tmp_path / name / "last" / "adapter.safetensors").read_bytes()

    whole = go("whole")
    assert seen == [number / 8 for number in range(8)]
    seen.clear()
    stop_at = 5 / 8
    with pytest.raises(KeyboardInterrupt):
        go("stopped")
    stop_at = None
    assert go("stopped") == whole
    assert seen == [number / 8 for number in range(8)]
