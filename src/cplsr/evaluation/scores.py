"""One pass over the scores of all episodes: accuracies, confusions and calibration together."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float64, Int64
from numpy import ndarray

from cplsr.episodes.sampling import Episodes
from cplsr.evaluation.calibration import BINS, bin_sums
from cplsr.evaluation.confusion import confusion_counts
from cplsr.evaluation.scoring import ScoredEpisodes


@dataclass(frozen=True, eq=False)
class EpisodeScores:
    """What the answers to all queries came to.

    Attributes:
        accuracies: Share of right answers in each episode, between 0 and 1.
        confusion: Queries of each class (row) by the class they were taken for (column).
        calibration: Answers, confidences and right answers of each bin; see `calibration.bin_sums`.

    The last two are `None` where only accuracies are known.
    """

    accuracies: Float64[ndarray, "episodes"]
    confusion: Int64[ndarray, "classes classes"] | None = None
    calibration: Float64[ndarray, "3 bins"] | None = None


def score_episodes(
    parts: Iterable[ScoredEpisodes], episodes: Episodes, classes: int, sharper: float = 1.0
) -> EpisodeScores:
    """Sum up the scores of `episodes`, whose labels are the numbers below `classes`, chunk by chunk.

    Confidences are those of `sharper` times the scores.
    """
    accuracies = np.empty(len(episodes))
    confusion = np.zeros((classes, classes), dtype=np.int64)
    calibration = np.zeros((3, BINS))
    for part in parts:
        numbers = slice(part.first, part.first + len(part.scores))
        truth, predictions = episodes.truth[numbers], part.predictions()
        correct = predictions == truth
        accuracies[numbers] = correct.mean(axis=1)
        confusion += confusion_counts(episodes.classes[numbers], truth, predictions, classes)
        calibration += bin_sums(part.scores if sharper == 1 else sharper * part.scores, correct)
    return EpisodeScores(accuracies, confusion, calibration)
