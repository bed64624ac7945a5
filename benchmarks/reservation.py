"""How fast pseudo-episodes are chosen and drawn, and how much memory their statistics take.

Ours is measured whole: 100 pseudo-episodes of the default recipe at d = 384, all of Eq. 7-12 and the sampling. The
other two sides choose among the same candidates by Eq. 12 as it is written:

1. literal: pseudo-inverse and both log-determinants anew for every pair of candidate and base class;
2. hoisted: the candidate's pseudo-inverse and log-determinant once, the rest for every base class.

They would run for an hour, so they are timed on a few base classes and scaled to 100 episodes · 10 survivors · B. Their
mixing and sampling is not counted, which is in their favor; ours includes the sums over the base classes, made once.
With `--quick` ours is timed on 20 episodes and scaled, too.

    python benchmarks/reservation.py --quick --json reservation.json
"""

from __future__ import annotations

import multiprocessing
import tempfile
from multiprocessing.connection import Connection
from pathlib import Path

import torch
from claims import Claim, arguments, interleaved, report
from torch import Tensor

from cplsr.reservation.candidates import mix_classes, mixed_covariance
from cplsr.reservation.moments import ClassMoments
from cplsr.reservation.pseudo_episodes import draw_pseudo_episode
from cplsr.reservation.statistics import ClassGaussians
from cplsr.settings.training import PseudoEpisodeRecipe

DIM, IMAGES = 384, 400
SMALL, LARGE = 256, 1404
EPISODES = 100
QUICK_EPISODES = 20
"""With `--quick` ours is timed on these and scaled, too."""
RECIPE = PseudoEpisodeRecipe()
SURVIVORS = RECIPE.survivors * RECIPE.way
LIMIT_GB = 2.5
PART = 16
"""Base classes that the two other sides are timed on."""


def made_up_moments(classes: int) -> ClassMoments:
    """Moments of random classes, each with its own center and spread along every axis."""
    generator = torch.Generator().manual_seed(classes)
    noise = torch.randn(IMAGES + classes, DIM, generator=generator)
    moments = ClassMoments(classes, DIM)
    for label in range(classes):
        spread = torch.rand(DIM, generator=generator).mul(6).sub(4).exp()
        center = torch.randn(DIM, generator=generator)
        images = noise[label : label + IMAGES] * spread + center
        moments.update(images, torch.full((IMAGES,), label))
    return moments


def divergence(mean: Tensor, inverse: Tensor, log_determinant: Tensor, base_mean: Tensor, base: Tensor) -> Tensor:
    """One term of Eq. 12."""
    gap = mean - base_mean
    log_ratio = log_determinant - torch.linalg.slogdet(base).logabsdet
    return (torch.trace(inverse @ base) + gap @ inverse @ gap + log_ratio - len(gap)) / 2


def literal(mean: Tensor, covariance: Tensor, base_means: Tensor, bases: Tensor) -> Tensor:
    """Eq. 12 as it is written."""
    total = torch.zeros((), dtype=torch.float64)
    for base_mean, base in zip(base_means, bases, strict=True):
        inverse = torch.linalg.pinv(covariance, hermitian=True)
        total += divergence(mean, inverse, torch.linalg.slogdet(covariance).logabsdet, base_mean, base)
    return total


def hoisted(mean: Tensor, covariance: Tensor, base_means: Tensor, bases: Tensor) -> Tensor:
    """Eq. 12 with everything that does not depend on the base class outside the loop."""
    total = torch.zeros((), dtype=torch.float64)
    inverse = torch.linalg.pinv(covariance, hermitian=True)
    log_determinant = torch.linalg.slogdet(covariance).logabsdet
    for base_mean, base in zip(base_means, bases, strict=True):
        total += divergence(mean, inverse, log_determinant, base_mean, base)
    return total


def peak_gigabytes() -> float:
    """The most memory this process has held so far (resident set)."""
    line = next(line for line in Path("/proc/self/status").read_text().splitlines() if line.startswith("VmHWM"))
    return int(line.split()[1]) * 1024 / 1e9


def draw_episodes(gaussians: ClassGaussians, count: int) -> None:
    """Draw pseudo-episodes one after the other."""
    generator = torch.Generator().manual_seed(0)
    for _ in range(count):
        draw_pseudo_episode(gaussians, RECIPE, generator=generator)


def large_statistics(path: Path, threads: int, answer: Connection) -> None:
    """In a process of its own: gather the statistics of all classes, draw a few episodes, save; report the peak."""
    torch.set_num_threads(threads)
    gaussians = ClassGaussians.from_moments(made_up_moments(LARGE))
    draw_episodes(gaussians, 5)
    gaussians.save(path)
    answer.send(peak_gigabytes())


def measure_memory(path: Path) -> float:
    """Run `large_statistics` in a fresh process."""
    context = multiprocessing.get_context("spawn")
    receiver, sender = context.Pipe(duplex=False)
    process = context.Process(target=large_statistics, args=(path, torch.get_num_threads(), sender))
    process.start()
    sender.close()
    peak = receiver.recv()
    process.join()
    return peak


def time_all(small: ClassGaussians, large: ClassGaussians, episodes: int, repetitions: int) -> dict[str, float]:
    """Median seconds: ours at both sizes for `EPISODES` episodes, the other sides for one candidate and all classes."""
    candidates = mix_classes(small, 1, generator=torch.Generator().manual_seed(0))
    mean, covariance = candidates.means[0], mixed_covariance(small, candidates, 0)
    base_means, bases = small.means[:PART], torch.stack([small.covariance(label) for label in range(PART)])

    def draw(gaussians: ClassGaussians) -> None:
        draw_episodes(gaussians, episodes)

    seconds = interleaved(
        {
            "small": lambda: draw(small),
            "large": lambda: draw(large),
            "preparation": lambda: ClassGaussians.from_moments(small.moments),
            "literal": lambda: literal(mean, covariance, base_means, bases),
            "hoisted": lambda: hoisted(mean, covariance, base_means, bases),
            "once": lambda: hoisted(mean, covariance, base_means[:0], bases[:0]),
        },
        repetitions,
    )
    return {
        "small": seconds["small"] * EPISODES / episodes,
        "large": seconds["large"] * EPISODES / episodes,
        "preparation": seconds["preparation"],
        "literal": seconds["literal"] * SMALL / PART,
        # The hoisted side pays for its pseudo-inverse once per candidate, not once per PART base classes.
        "hoisted": seconds["once"] + (seconds["hoisted"] - seconds["once"]) * SMALL / PART,
    }


def main() -> None:
    """Measure all sides and print the table."""
    threads = min(2, torch.get_num_threads())  # OMP_NUM_THREADS=1 keeps the figures steady on a busy machine
    options = arguments(__doc__.splitlines()[0])
    torch.set_num_threads(threads)
    repetitions = 3 if options.quick else 7
    episodes = QUICK_EPISODES if options.quick else EPISODES
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "statistics.safetensors"
        peak = measure_memory(path)
        large = ClassGaussians.load(path)
        small = ClassGaussians.from_moments(made_up_moments(SMALL))
        seconds = time_all(small, large, episodes, repetitions)
    ours = EPISODES / (seconds["small"] + seconds["preparation"])
    theirs = {name: 1 / (seconds[name] * SURVIVORS) for name in ("literal", "hoisted")}

    print(
        f"{EPISODES} pseudo-episodes, d = {DIM}, threads: {threads}: {seconds['small']:.2f} s at B = {SMALL} (and once "
        f"{seconds['preparation']:.2f} s for the sums over the classes), {seconds['large']:.2f} s at B = {LARGE}.\n"
        f"Ours was timed on {episodes} episodes, literal and hoisted on {PART} of {SMALL} base classes, and scaled."
    )
    across = f"seconds, B={LARGE} against B={SMALL} (both ours)"
    report(
        [
            Claim(f"pseudo-episodes/s, B={SMALL}: literal Eq. 12", ours, theirs["literal"], "higher", 1000),
            Claim(f"pseudo-episodes/s, B={SMALL}: candidate hoisted", ours, theirs["hoisted"], "higher", 40),
            Claim(across, seconds["large"], seconds["small"], "lower", 1.2),
            Claim(f"peak memory in GB, B={LARGE}, against the limit", peak, LIMIT_GB, "lower", 1.0),
        ],
        options.json,
    )


if __name__ == "__main__":
    main()
