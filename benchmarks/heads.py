"""Episodes of depth embeddings answered by ridge regression, against a loop over scikit-learn's `RidgeClassifier`.

5,000 images of 2 · 12 · 384 numbers, as all blocks of ViT-S/16 give, and 5,000 5-way 5-shot episodes with 15 queries of
each class. The loop gathers the rows of an episode, scaled to length one beforehand, fits and predicts.

With several programs on the cores the loop's own threads wait for each other, so that it is timed with one thread too,
and the faster of the two counts. The processor time of both sides on one thread is printed beside the claim.
"""

from __future__ import annotations

import argparse
import threading
import time
from pathlib import Path

import numpy as np
from claims import Claim, arguments, interleaved, report
from sklearn.linear_model import RidgeClassifier
from threadpoolctl import threadpool_limits

from cplsr.episodes.heads.ridge import Ridge
from cplsr.episodes.sampling import Episodes, EpisodeSampler
from cplsr.evaluation.scoring import Scoring

CLASSES, IMAGES, DIM, EPISODES, WAY, SHOT, QUERY = 10, 5000, 2 * 12 * 384, 5000, 5, 5, 15
PENALTY, GOAL = 0.1, 30


def loop(vectors: np.ndarray, episodes: Episodes) -> np.ndarray:
    """The plain way: one episode after the other."""
    labels, truth = np.repeat(np.arange(WAY), SHOT), np.repeat(np.arange(WAY), QUERY)
    accuracies = np.empty(len(episodes))
    for number, (support, asked) in enumerate(zip(episodes.support, episodes.asked, strict=True)):
        head = RidgeClassifier(alpha=PENALTY, fit_intercept=False, solver="cholesky")
        head.fit(vectors[support.reshape(-1)], labels)
        accuracies[number] = (head.predict(vectors[asked]) == truth).mean()
    return accuracies


def resident() -> float:
    """Megabytes of memory that this process holds now."""
    return int(Path("/proc/self/statm").read_text(encoding="ascii").split()[1]) * 4096 / 1e6


def extra_memory(vectors: np.ndarray, episodes: Episodes) -> Claim:
    """The most memory that one evaluation holds beyond the embeddings, against the gigabyte allowed."""
    before, highest, done = resident(), [0.0], threading.Event()

    def watch() -> None:
        while not done.is_set():
            highest[0] = max(highest[0], resident())
            time.sleep(0.01)

    watcher = threading.Thread(target=watch)
    watcher.start()
    Scoring(vectors).accuracies(episodes, Ridge(PENALTY))
    done.set()
    watcher.join()
    return Claim("extra memory in MB, against 1 GB", highest[0] - before, 1000, "lower", 1)


def against_loop(vectors: np.ndarray, episodes: Episodes, theirs: int, repetitions: int) -> Claim:
    """Both on the same episodes, drawn beforehand; the loop does the first of them, told as a rate."""
    first = episodes[:theirs]
    difference = np.abs(Scoring(vectors).accuracies(episodes, Ridge(PENALTY))[:theirs] - loop(vectors, first))
    if (difference > 1.5 / (WAY * QUERY)).any() or (difference > 1e-9).mean() > 0.01:
        raise RuntimeError("the two sides disagree by more than rounding")
    seconds = interleaved(
        {
            "ours": lambda: Scoring(vectors).accuracies(episodes, Ridge(PENALTY)),
            "all threads": lambda: loop(vectors, first),
            "one thread": lambda: threadpool_limits.wrap(1)(loop)(vectors, first),
        },
        repetitions,
    )
    ours, fastest = len(episodes) / seconds.pop("ours"), theirs / min(seconds.values())
    return Claim("ridge episodes/s against scikit-learn", ours, fastest, "higher", GOAL)


def processor_time(vectors: np.ndarray, episodes: Episodes, theirs: int) -> str:
    """Processor seconds of both sides on one thread."""
    with threadpool_limits(1):
        start = time.process_time()
        Scoring(vectors).accuracies(episodes, Ridge(PENALTY), threads=1)
        middle = time.process_time()
        loop(vectors, episodes[:theirs])
        ours, loops = (middle - start) / len(episodes), (time.process_time() - middle) / theirs
    return f"processor ms per episode on one thread: {1000 * ours:.3f}, the loop {1000 * loops:.3f}"


def main() -> None:
    """Time both sides and print the claims."""
    options: argparse.Namespace = arguments(__doc__ or "")
    generator = np.random.default_rng(0)
    labels = np.arange(IMAGES) % CLASSES
    vectors = generator.standard_normal((IMAGES, DIM), dtype=np.float32)
    vectors += generator.standard_normal((CLASSES, DIM), dtype=np.float32)[labels] / 10  # some answers are wrong
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    episodes = EpisodeSampler(labels, way=WAY, shot=SHOT, query=QUERY).draw(EPISODES)

    theirs = 100 if options.quick else 500
    claims = [extra_memory(vectors, episodes), against_loop(vectors, episodes, theirs, 3 if options.quick else 7)]
    print(processor_time(vectors, episodes, theirs))
    report(claims, options.json)


if __name__ == "__main__":
    main()
