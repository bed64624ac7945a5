"""Drawing 5,000 five-way episodes of 20 images a class over 27,000 labels, against a loop of Generator.choice.

Ours is timed with everything: numbering the labels, the draws and the index arrays. The loop gets its lists of images
per class for nothing.
"""

from __future__ import annotations

import numpy as np
from claims import Claim, arguments, interleaved, report

from cplsr.episodes.sampling import EpisodeSampler

CLASSES, IMAGES_PER_CLASS, EPISODES, WAY, SHOT, QUERY = 10, 2700, 5000, 5, 5, 15


def loop(members: list[np.ndarray], generator: np.random.Generator) -> np.ndarray:
    """The plain way: choose classes, then choose images of each class, one episode after the other."""
    episodes = np.empty((EPISODES, WAY, SHOT + QUERY), dtype=np.int64)
    for episode in range(EPISODES):
        for place, class_ in enumerate(generator.choice(CLASSES, WAY, replace=False)):
            episodes[episode, place] = generator.choice(members[class_], SHOT + QUERY, replace=False)
    return episodes


def main() -> None:
    """Time both sides and print the claim."""
    options = arguments(__doc__ or "")
    labels = np.random.default_rng(0).permutation(np.repeat(np.arange(CLASSES), IMAGES_PER_CLASS))
    members = [np.flatnonzero(labels == class_) for class_ in range(CLASSES)]
    generator = np.random.default_rng(0)
    seconds = interleaved(
        {
            "ours": lambda: EpisodeSampler(labels, way=WAY, shot=SHOT, query=QUERY).draw(EPISODES),
            "theirs": lambda: loop(members, generator),
        },
        repetitions=7 if options.quick else 25,
    )
    rates = {side: EPISODES / elapsed for side, elapsed in seconds.items()}
    report([Claim("episodes/s, 5-way, 20 images a class", rates["ours"], rates["theirs"], "higher", 20)], options.json)


if __name__ == "__main__":
    main()
