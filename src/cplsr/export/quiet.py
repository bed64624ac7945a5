"""Other libraries kept quiet while a model is written: what matters is checked here and said in one sentence."""

from __future__ import annotations

import logging
import warnings
from collections.abc import Iterator
from contextlib import contextmanager

_TALKATIVE = ("torch.onnx", "torch.export", "onnxscript", "onnx_ir")


@contextmanager
def quiet_transformers() -> Iterator[None]:
    """No progress bars and no reports on absent heads from transformers."""
    from transformers.utils import logging as transformers_logging

    level, bars = transformers_logging.get_verbosity(), transformers_logging.is_progress_bar_enabled()
    transformers_logging.set_verbosity_error()
    transformers_logging.disable_progress_bar()
    try:
        yield
    finally:
        transformers_logging.set_verbosity(level)
        if bars:
            transformers_logging.enable_progress_bar()


@contextmanager
def quiet_exporter() -> Iterator[None]:
    """No warnings from torch's ONNX exporter: they are about operators of libraries that are not used."""
    loggers = [logging.getLogger(name) for name in _TALKATIVE]
    levels = [logger.level for logger in loggers]
    for logger in loggers:
        logger.setLevel(logging.ERROR)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        for logger, level in zip(loggers, levels, strict=True):
            logger.setLevel(level)
