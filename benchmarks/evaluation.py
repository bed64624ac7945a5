"""5,000 five-way episodes over 27,000 x 384 embeddings, 1- and 5-shot, against a loop over the episodes.

The loop is plain numpy: gather, average, normalize, multiply, compare. With `--easyfsl-python PATH`, the interpreter of
an environment that has easyfsl 1.5.0, its `evaluate` with `SimpleShot` (cosine to prototypes) on a `FeaturesDataset`
is timed too, sampling included on both sides. Where it is not given or does not run (its sampler calls a constructor
that newer versions of torch no longer have), the loop stands in, and the output says so.

Ours uses all cores and the loop one, so the ratio falls when other programs hold the cores. The processor time of both
on one thread, which depends less on that, is printed beside it.
"""

from __future__ import annotations

import argparse
import statistics
import subprocess
import sys
import tempfile
import time
import tracemalloc
from pathlib import Path

import numpy as np
from claims import Claim, arguments, interleaved, report
from threadpoolctl import threadpool_limits

from cplsr.episodes.sampling import Episodes, EpisodeSampler
from cplsr.evaluation.scoring import Scoring

CLASSES, DIM, EPISODES, WAY, QUERY = 10, 384, 5000, 5, 15
IMAGES_PER_CLASS = (2700, 150)
"""All of EuroSAT, whose embeddings are gathered, and a sample small enough for the products of all pairs of images."""

GOALS = {1: {"loop": 10, "easyfsl": 50}, 5: {"loop": 5, "easyfsl": 25}}

EASYFSL = """
import sys, time, numpy as np, torch
from torch.utils.data import DataLoader
from easyfsl.datasets import FeaturesDataset
from easyfsl.methods import SimpleShot
from easyfsl.samplers import TaskSampler
from easyfsl.utils import evaluate

file, way, shot, query, episodes = sys.argv[1], *map(int, sys.argv[2:])
torch.set_num_threads(2)
content = np.load(file)
labels = content["labels"].tolist()
data = FeaturesDataset(labels, torch.from_numpy(content["vectors"]), [str(c) for c in sorted(set(labels))])
sampler = TaskSampler(data, n_way=way, n_shot=shot, n_query=query, n_tasks=episodes)
loader = DataLoader(data, batch_sampler=sampler, collate_fn=sampler.episodic_collate_fn)
start = time.perf_counter()
evaluate(SimpleShot(), loader, device="cpu", use_tqdm=False)
print(time.perf_counter() - start)
"""


def loop(vectors: np.ndarray, episodes: Episodes) -> np.ndarray:
    """The plain way: one episode after the other."""
    truth = np.repeat(np.arange(WAY), QUERY)
    accuracies = np.empty(len(episodes))
    for number, (support, query) in enumerate(zip(episodes.support, episodes.query, strict=True)):
        prototypes = vectors[support].mean(axis=1)
        queries = vectors[query.reshape(-1)]
        prototypes /= np.linalg.norm(prototypes, axis=1, keepdims=True)
        queries /= np.linalg.norm(queries, axis=1, keepdims=True)
        accuracies[number] = ((queries @ prototypes.T).argmax(axis=1) == truth).mean()
    return accuracies


def against_loop(vectors: np.ndarray, labels: np.ndarray, shot: int, repetitions: int) -> Claim:
    """Both on the same episodes, drawn beforehand; the loop does the first fifth of them, told as a rate."""
    episodes = EpisodeSampler(labels, way=WAY, shot=shot, query=QUERY).draw(EPISODES)
    first = episodes[: EPISODES // 5]
    difference = np.abs(Scoring(vectors).accuracies(first) - loop(vectors, first))
    if (difference > 1.5 / (WAY * QUERY)).any() or (difference > 1e-9).mean() > 0.001:
        raise RuntimeError("the two sides disagree by more than rounding")
    seconds = interleaved(
        {"ours": lambda: Scoring(vectors).accuracies(episodes), "theirs": lambda: loop(vectors, first)}, repetitions
    )
    name = f"episodes/s, {len(labels):,} images, {shot}-shot, against a loop"
    ours, theirs = len(episodes) / seconds["ours"], len(first) / seconds["theirs"]
    return Claim(name, ours, theirs, "higher", GOALS[shot]["loop"])


def processor_time(vectors: np.ndarray, labels: np.ndarray, shot: int, repetitions: int) -> str:
    """Median processor seconds of both sides on one thread, the sides taking turns."""
    episodes = EpisodeSampler(labels, way=WAY, shot=shot, query=QUERY).draw(EPISODES // 5)
    sides = {
        "ours": lambda: Scoring(vectors).accuracies(episodes, threads=1),
        "theirs": lambda: loop(vectors, episodes),
    }
    seconds: dict[str, list[float]] = {name: [] for name in sides}
    with threadpool_limits(1):
        for _ in range(repetitions):
            for name, run in sides.items():
                start = time.process_time()
                run()
                seconds[name].append(time.process_time() - start)
    ours, theirs = (1000 * statistics.median(times) for times in seconds.values())
    what = f"{len(labels):,} images, {shot}-shot, processor ms per {len(episodes):,} episodes on one thread"
    return f"{what}: {ours:.1f}, the loop {theirs:.1f}"


def against_easyfsl(
    vectors: np.ndarray, labels: np.ndarray, shot: int, repetitions: int, python: str, their_episodes: int
) -> Claim:
    """Both draw their own episodes; theirs are fewer, and both are told as a rate."""
    ours, theirs = [], []
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "features.npz"
        np.savez(file, vectors=vectors, labels=labels)
        command = [python, "-c", EASYFSL, str(file), *map(str, (WAY, shot, QUERY, their_episodes))]
        for _ in range(repetitions):
            start = time.perf_counter()
            sampler = EpisodeSampler(labels, way=WAY, shot=shot, query=QUERY)
            Scoring(vectors).accuracies(sampler.draw(EPISODES))
            ours.append(EPISODES / (time.perf_counter() - start))
            answer = subprocess.run(command, capture_output=True, text=True, check=True)
            theirs.append(their_episodes / float(answer.stdout.split()[-1]))
    name = f"episodes/s, {shot}-shot, sampling included, against easyfsl"
    return Claim(name, statistics.median(ours), statistics.median(theirs), "higher", GOALS[shot]["easyfsl"])


def why_not(python: str | None) -> str | None:
    """Why easyfsl cannot be timed; `None` where it runs."""
    if python is None:
        return "easyfsl was not given (--easyfsl-python PATH)"
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "features.npz"
        np.savez(file, vectors=np.ones((40, 4), dtype=np.float32), labels=np.arange(40) % 2)
        answer = subprocess.run([python, "-c", EASYFSL, str(file), "2", "1", "1", "1"], capture_output=True, text=True)
    return None if answer.returncode == 0 else f"easyfsl does not run there ({answer.stderr.strip().splitlines()[-1]})"


def extra_memory(vectors: np.ndarray, labels: np.ndarray) -> Claim:
    """Peak of what one evaluation at 5-shot allocates, episodes included, against the gigabyte allowed."""
    tracemalloc.start()
    Scoring(vectors).accuracies(EpisodeSampler(labels, way=WAY, shot=5, query=QUERY).draw(EPISODES))
    peak = tracemalloc.get_traced_memory()[1] / 1e6
    tracemalloc.stop()
    return Claim(f"extra memory in MB, {len(labels):,} images, against 1 GB", peak, 1000, "lower", 1)


def main() -> None:
    """Time all sides and print the claims."""
    own = argparse.ArgumentParser(add_help=False)
    own.add_argument("--easyfsl-python", metavar="PATH")
    easyfsl, rest = own.parse_known_args()
    sys.argv[1:] = rest
    options = arguments(f"{__doc__} Option: --easyfsl-python PATH.")

    reason = why_not(easyfsl.easyfsl_python)
    if reason is not None:
        print(f"{reason}: a per-episode numpy loop stands in for it")
    claims = []
    for size in IMAGES_PER_CLASS:
        generator = np.random.default_rng(0)
        labels = np.repeat(np.arange(CLASSES), size)
        centers = generator.normal(size=(CLASSES, DIM)) / 4
        vectors = (centers[labels] + generator.normal(size=(len(labels), DIM))).astype(np.float32)
        claims.append(extra_memory(vectors, labels))
        for shot in GOALS:
            claims.append(against_loop(vectors, labels, shot, 3 if options.quick else 9))
            print(processor_time(vectors, labels, shot, 5 if options.quick else 15))
            if reason is None and size == max(IMAGES_PER_CLASS):
                few = (1, 500) if options.quick else (3, 2000)
                claims.append(against_easyfsl(vectors, labels, shot, few[0], easyfsl.easyfsl_python, few[1]))
    report(claims, options.json)


if __name__ == "__main__":
    main()
