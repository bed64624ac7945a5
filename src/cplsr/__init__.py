"""Cross-domain few-shot image classification with coalescent projections and latent space reservation.

Everything public is importable from here; the modules behind the names load when a name is first used, so that
`import cplsr` and `cplsr --help` stay fast.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from cplsr.version import __version__

_PUBLIC = {
    "InputError": "cplsr.errors",
    "load_backbone": "cplsr.backbones.load",
    "Backbone": "cplsr.backbones.backbone",
    "attach": "cplsr.adapters.attach",
    "detach": "cplsr.adapters.attach",
    "merge": "cplsr.adapters.attach",
    "save_adapter": "cplsr.adapters.store",
    "load_adapter": "cplsr.adapters.store",
    "push_adapter": "cplsr.adapters.store",
    "coalescent_from_update": "cplsr.adapters.closed_form",
    "Domain": "cplsr.data.domain",
    "open_domain": "cplsr.data.open",
    "EpisodeSampler": "cplsr.episodes.sampling",
    "EpisodeSettings": "cplsr.settings.episodes",
    "evaluate": "cplsr.evaluation.evaluate",
    "TrainingSettings": "cplsr.settings.training",
    "train": "cplsr.training.loop",
    "analyze": "cplsr.analysis.analyze",
    "FewShotClassifier": "cplsr.classifier.few_shot_classifier",
    "PrototypeClassifier": "cplsr.classifier.prototype_classifier",
    "export_transformers": "cplsr.export.to_transformers",
    "export_onnx": "cplsr.export.to_onnx",
    "export_timm": "cplsr.export.to_timm",
}

__all__ = ["__version__", *sorted(_PUBLIC)]

if TYPE_CHECKING:
    from cplsr.adapters.attach import attach, detach, merge
    from cplsr.adapters.closed_form import coalescent_from_update
    from cplsr.adapters.store import load_adapter, push_adapter, save_adapter
    from cplsr.analysis.analyze import analyze
    from cplsr.backbones.backbone import Backbone
    from cplsr.backbones.load import load_backbone
    from cplsr.classifier.few_shot_classifier import FewShotClassifier
    from cplsr.classifier.prototype_classifier import PrototypeClassifier
    from cplsr.data.domain import Domain
    from cplsr.data.open import open_domain
    from cplsr.episodes.sampling import EpisodeSampler
    from cplsr.errors import InputError
    from cplsr.evaluation.evaluate import evaluate
    from cplsr.export.to_onnx import export_onnx
    from cplsr.export.to_timm import export_timm
    from cplsr.export.to_transformers import export_transformers
    from cplsr.settings.episodes import EpisodeSettings
    from cplsr.settings.training import TrainingSettings
    from cplsr.training.loop import train


def __getattr__(name: str) -> Any:
    if name not in _PUBLIC:
        raise AttributeError(f"module 'cplsr' has no attribute {name!r}")
    return getattr(importlib.import_module(_PUBLIC[name]), name)


def __dir__() -> list[str]:
    return sorted(__all__)
