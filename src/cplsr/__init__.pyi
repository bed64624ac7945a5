# What is public, declared once: for type checkers, and at run time through lazy_loader.
from .adapters.attach import attach as attach
from .adapters.attach import detach as detach
from .adapters.attach import merge as merge
from .adapters.base import Adapter as Adapter
from .adapters.closed_form import coalescent_from_update as coalescent_from_update
from .adapters.store import load_adapter as load_adapter
from .adapters.store import push_adapter as push_adapter
from .adapters.store import save_adapter as save_adapter
from .analysis.analyze import analyze as analyze
from .backbones.backbone import Backbone as Backbone
from .backbones.load import load_backbone as load_backbone
from .classifier.embedding_classifier import EmbeddingClassifier as EmbeddingClassifier
from .classifier.few_shot_classifier import FewShotClassifier as FewShotClassifier
from .classifier.prediction import Prediction as Prediction
from .classifier.prediction import PredictionTable as PredictionTable
from .data.domain import Domain as Domain
from .data.open import open_domain as open_domain
from .episodes.sampling import EpisodeSampler as EpisodeSampler
from .errors import InputError as InputError
from .evaluation.cache import EmbeddingCache as EmbeddingCache
from .evaluation.evaluate import evaluate as evaluate
from .export.to_onnx import export_onnx as export_onnx
from .export.to_timm import export_timm as export_timm
from .export.to_transformers import export_transformers as export_transformers
from .records.results import Results as Results
from .settings.episodes import EpisodeSettings as EpisodeSettings
from .settings.training import TrainingSettings as TrainingSettings
from .training.loop import TrainingResult as TrainingResult
from .training.loop import train as train
from .version import __version__ as __version__

__all__ = [
    "Adapter",
    "Backbone",
    "Domain",
    "EmbeddingCache",
    "EmbeddingClassifier",
    "EpisodeSampler",
    "EpisodeSettings",
    "FewShotClassifier",
    "InputError",
    "Prediction",
    "PredictionTable",
    "Results",
    "TrainingResult",
    "TrainingSettings",
    "__version__",
    "analyze",
    "attach",
    "coalescent_from_update",
    "detach",
    "evaluate",
    "export_onnx",
    "export_timm",
    "export_transformers",
    "load_adapter",
    "load_backbone",
    "merge",
    "open_domain",
    "push_adapter",
    "save_adapter",
    "train",
]
