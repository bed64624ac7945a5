"""Which images an episode holds: N classes, K support and K_q query images of each, as arrays of indices."""

from __future__ import annotations

import warnings
from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from jaxtyping import Bool, Int32, Int64, Shaped
from numpy import ndarray

from cplsr.declared import fit
from cplsr.episodes.groups import GroupedClasses, can_split
from cplsr.episodes.streams import Stream, distinct_below, philox_words
from cplsr.errors import InputError
from cplsr.settings.episodes import Queries

CHUNK = 1250
"""Episodes drawn at a time: enough to hide the cost of a call, few enough to stay near the processor's cache."""

ATTEMPTS = 1000
"""How often an episode is drawn again when its support set leaves too few images of other groups to ask about."""


@dataclass(frozen=True, eq=False)
class Episodes:
    """Index arrays into the label vector that the episodes were drawn from.

    `classes` holds the labels themselves, in the order of the `way` axis; `episodes.support[e, c]` are images of class
    `episodes.classes[e, c]`, and so are `episodes.query[e, c]`. Where the classes have different numbers of queries,
    these stand in a row, and `targets` says which place on the `way` axis is the class of each.
    """

    support: Int64[ndarray, "episodes way shot"]
    query: Int64[ndarray, "episodes *queries"]
    classes: Shaped[ndarray, "episodes way"]
    targets: Int64[ndarray, "episodes queries"] | None = None

    def __len__(self) -> int:
        return len(self.support)

    def __getitem__(self, part: slice | Bool[ndarray, "episodes"]) -> Episodes:
        """Some of the episodes."""
        targets = None if self.targets is None else self.targets[part]
        return Episodes(self.support[part], self.query[part], self.classes[part], targets)

    @property
    def way(self) -> int:
        """Classes in an episode."""
        return self.support.shape[1]

    @property
    def shot(self) -> int:
        """Support images of each class."""
        return self.support.shape[2]

    @property
    def asked(self) -> Int64[ndarray, "episodes queries"]:
        """All query images of each episode in a row, class by class."""
        return self.query.reshape(len(self), int(np.prod(self.query.shape[1:])))

    @property
    def truth(self) -> Int64[ndarray, "episodes queries"]:
        """The place on the `way` axis of the class of each query."""
        if self.targets is not None:
            return self.targets
        return np.broadcast_to(np.repeat(np.arange(self.way), self.query.shape[2]), self.asked.shape)


class EpisodeSampler:
    """Draws N-way K-shot episodes from a label vector, thousands at once.

    Labels may be anything hashable: only which images share a label matters, so renaming the classes changes nothing.
    Every episode has `way` distinct classes and `shot + query` distinct images of each. Episode number i depends on the
    labels, the groups, the seed, way, shot, query and i alone: the first hundred of five thousand episodes are the
    hundred one would have drawn, two methods see the same episodes, and training can go on where it stopped.

    With `groups` (a patient, a lesion: one value per image) no group is in both the support and the query set of an
    episode. The support set is drawn first; queries come from the images of all other groups.

    With `queries="dirichlet"` an episode has the classes and the support set that it has anyway and way · query queries
    in all, but the classes' shares of them are drawn from Dirichlet(2, ..., 2); a class that has too few images for its
    share leaves the rest to the others.

    A class with too few images is left out with a warning and listed in `left_out`.
    """

    def __init__(
        self,
        labels: Sequence[Hashable] | Shaped[ndarray, "images"],
        *,
        way: int = 5,
        shot: int = 1,
        query: int = 15,
        seed: int = 0,
        groups: Sequence[Hashable] | Shaped[ndarray, "images"] | None = None,
        queries: Queries = "balanced",
    ) -> None:
        for name, value in (("way", way), ("shot", shot), ("query", query)):
            if value < 1:
                raise InputError(f"{name} is {value}: an episode needs at least 1")
        if not 0 <= seed < 2**64:
            raise InputError(f"seed is {seed}: give a whole number from 0 to 2**64 - 1")
        self.way, self.shot, self.query, self.seed = way, shot, query, seed
        self.queries: Queries = fit(queries, Queries, "queries")
        self.labels, self.groups = labels, groups

        names, codes = number_by_first_appearance(labels)
        images = _images_by_class(codes, len(names))
        grouped = None if groups is None else number_by_first_appearance(groups)[1]
        if grouped is not None and len(grouped) != len(codes):
            raise InputError(f"{len(grouped)} groups were given for {len(codes)} images: give one group per image")
        usable = [
            len(members) >= shot + query and (grouped is None or can_split(grouped[members], shot, query))
            for members in images
        ]
        chosen = [c for c, fits in enumerate(usable) if fits]

        self.left_out: tuple[tuple[Any, int], ...] = tuple(
            (names[c], len(images[c])) for c, fits in enumerate(usable) if not fits
        )
        self._refuse_too_few_classes([len(members) for members in images], chosen, grouped is not None)
        self._warn_of_left_out(grouped is not None)

        self.classes: tuple[Any, ...] = tuple(names[c] for c in chosen)
        self._names = _array_of_labels(self.classes, labels)
        images = [images[c] for c in chosen]
        self._sizes = np.array([len(members) for members in images], dtype=np.int64)
        self._starts = np.concatenate([[0], np.cumsum(self._sizes)[:-1]])
        self._images = np.concatenate(images)
        self._grouped = None if grouped is None else GroupedClasses(images, grouped)

    def draw(self, count: int, first: int = 0) -> Episodes:
        """Episodes `first`, `first + 1`, ..., `count` of them."""
        if count < 0 or first < 0:
            raise InputError(f"{count} episodes from number {first} were asked for: both must be at least 0")
        support = np.empty((count, self.way, self.shot), dtype=np.int64)
        query = np.empty((count, self.way, self.query), dtype=np.int64)
        targets = None if self.queries == "balanced" else np.empty((count, self.way * self.query), dtype=np.int64)
        names = np.empty((count, self.way), dtype=self._names.dtype)
        for begin in range(0, count, CHUNK):
            part = slice(begin, min(begin + CHUNK, count))
            classes, places, counts = self._draw_places(part.stop - begin, first + begin)
            # Places beyond what a class is asked about have no meaning, and only those can point past the end.
            indices = self._images.take(self._starts[classes] + places, mode="clip").transpose(1, 2, 0)
            support[part], drawn = indices[:, :, : self.shot], indices[:, :, self.shot :]
            if targets is None:
                query[part] = drawn
            else:
                meant = np.arange(drawn.shape[2]) < counts[:, :, None]
                query[part] = drawn[meant].reshape(query[part].shape)
                targets[part] = np.nonzero(meant)[1].reshape(targets[part].shape)
            names[part] = self._names[classes]
        return Episodes(support, query if targets is None else query.reshape(targets.shape), names, targets)

    def _words(self, numbers: Int64[ndarray, "episodes"], attempt: int) -> tuple[ndarray, ndarray, ndarray | None]:
        """Random words for the classes (way, episodes), for the images (shot + query, episodes · way), for the shares.

        With uneven queries there are words for as many images as a class may be asked about.
        """
        each = self.shot + self.query
        words = self._rows(numbers, self.way * (1 + each), Stream.IMAGES + attempt)
        for_classes, for_images = np.ascontiguousarray(words[:, : self.way].T), self._by_image(words[:, self.way :])
        if self.queries == "balanced":
            return for_classes, for_images, None
        beyond = self.way * self.query * (self.way - 1)
        words = self._rows(numbers, 2 * self.way + beyond, Stream.UNEVEN_QUERIES + attempt)
        more = self._by_image(words[:, 2 * self.way :])
        return for_classes, np.concatenate([for_images, more]), words[:, : 2 * self.way]

    def _rows(self, numbers: Int64[ndarray, "episodes"], words: int, stream: int) -> ndarray:
        first, count = int(numbers[0]), int(numbers[-1] - numbers[0]) + 1
        rows = philox_words(self.seed, count, words, first=first, stream=stream)
        return rows if count == len(numbers) else rows[numbers - first]

    def _by_image(self, words: ndarray) -> ndarray:
        return words.reshape(len(words), self.way, -1).transpose(2, 0, 1).reshape(-1, len(words) * self.way)

    def _counts(self, classes: Int32[ndarray, "episodes way"], words: ndarray | None) -> Int64[ndarray, "episodes way"]:
        """Queries of each class.

        The shares are gamma variates of shape 2, that is, −ln of the product of two uniform ones; they are rounded to
        whole queries by largest remainder.
        """
        if words is None:
            return np.full(classes.shape, self.query, dtype=np.int64)
        uniform = (words.astype(np.float64) + 0.5) / 2**32
        shares = -np.log(uniform[:, : self.way] * uniform[:, self.way :])
        exact = self.way * self.query * shares / shares.sum(axis=1, keepdims=True)
        counts = exact.astype(np.int64)
        ranks = np.argsort(np.argsort(counts - exact, axis=1, kind="stable"), axis=1)  # largest remainder first
        counts += ranks < self.way * self.query - counts.sum(axis=1, keepdims=True)
        room = self._sizes[classes] - self.shot
        counts = np.minimum(counts, room)
        for position in range(self.way):
            lacking = self.way * self.query - counts.sum(axis=1)
            counts[:, position] += np.minimum(room[:, position] - counts[:, position], lacking)
        return counts

    def _draw_places(self, count: int, first: int) -> tuple[ndarray, ndarray, ndarray]:
        """Classes (episodes, way), places of images within their class (images, episodes, way), queries of each class.

        Of the images the first `shot` are support images; how many of the others are queries the last array says. An
        episode that does not work out, as may be where groups are kept apart, is drawn again from the next stream.
        """
        numbers = np.arange(first, first + count)
        classes, places, counts, worked = self._attempt(numbers, 0)
        attempts = 1
        while not worked.all():
            again = np.flatnonzero(~worked)
            if attempts == ATTEMPTS:
                raise InputError(
                    f"after {ATTEMPTS} attempts {len(again)} of {count} episodes still had too few query images "
                    f"outside the groups of their support set: lower way ({self.way}), shot ({self.shot}) or query "
                    f"({self.query})"
                )
            classes[again], places[:, again], counts[again], worked[again] = self._attempt(numbers[again], attempts)
            attempts += 1
        return classes, places, counts

    def _attempt(
        self, numbers: Int64[ndarray, "episodes"], attempt: int
    ) -> tuple[ndarray, ndarray, ndarray, Bool[ndarray, "episodes"]]:
        """Draw episodes with ascending numbers once, and say which worked out."""
        count = len(numbers)
        for_classes, for_images, for_shares = self._words(numbers, attempt)
        classes = distinct_below(for_classes, np.full(count, len(self._sizes), dtype=np.int64)).T
        counts, sizes = self._counts(classes, for_shares), self._sizes[classes].reshape(-1)
        if self._grouped is None:
            places = distinct_below(for_images, sizes).reshape(-1, count, self.way)
            return classes, places, counts, np.ones(count, dtype=bool)
        support = distinct_below(for_images[: self.shot], sizes).reshape(self.shot, count, self.way)
        query, worked = self._grouped.draw_queries(classes, support, for_images[self.shot :], counts)
        return classes, np.concatenate([support, query]), counts, worked

    def _warn_of_left_out(self, grouped: bool) -> None:
        if not self.left_out:
            return
        shown = ", ".join(f"{name!r} ({count})" for name, count in self.left_out[:5])
        more = f" and {len(self.left_out) - 5} more" if len(self.left_out) > 5 else ""
        apart = " in different groups" if grouped else ""
        warnings.warn(
            f"left out {len(self.left_out)} of the classes: {shown}{more} have fewer than the {self.shot} support + "
            f"{self.query} query images{apart} that an episode takes",
            stacklevel=3,
        )

    def _refuse_too_few_classes(self, counts: list[int], chosen: list[int], grouped: bool) -> None:
        if len(chosen) >= self.way:
            return
        each = self.shot + self.query
        apart = " from separate groups" if grouped else ""
        message = (
            f"{self.way}-way episodes need {self.way} classes with {self.shot} shot + {self.query} query = {each} "
            f"images{apart}, but only {len(chosen)} of {len(counts)} classes have that many: "
        )
        if len(counts) < self.way:
            raise InputError(message + f"lower way to {len(counts)} or add classes")
        largest = sorted(counts, reverse=True)[self.way - 1]
        if largest > self.shot and not grouped:
            raise InputError(
                message + f"the {self.way} largest classes have at least {largest}, so query = {largest} - {self.shot} "
                f"= {largest - self.shot} would work; or lower way"
            )
        raise InputError(message + "lower shot, query or way, or add images")


def number_by_first_appearance(values: Sequence[Hashable] | ndarray) -> tuple[list[Any], Int64[ndarray, "images"]]:
    """The distinct values in order of first appearance, and for each entry the number of its value."""
    entries = values.tolist() if isinstance(values, ndarray) else list(values)
    try:
        numbers = {value: number for number, value in enumerate(dict.fromkeys(entries))}
    except TypeError as error:
        raise InputError(f"labels and groups must be one hashable value per image, such as a name: {error}") from error
    codes = np.fromiter((numbers[entry] for entry in entries), dtype=np.int64, count=len(entries))
    return list(numbers), codes


def _images_by_class(codes: Int64[ndarray, "images"], classes: int) -> list[Int64[ndarray, "members"]]:
    order = np.argsort(codes.astype(np.uint16) if classes <= 2**16 else codes, kind="stable")  # short keys: radix sort
    return np.split(order, np.cumsum(np.bincount(codes, minlength=classes))[:-1]) if classes else []


def _array_of_labels(names: tuple[Hashable, ...], labels: Sequence[Hashable] | ndarray) -> Shaped[ndarray, "classes"]:
    """The class names as an array of the labels' own type; mixed or nested labels are kept as objects."""
    if isinstance(labels, ndarray):
        dtype = labels.dtype
    else:
        simple = {type(name) for name in names}
        dtype = np.asarray(names).dtype if simple in ({int}, {str}) else np.dtype(object)
    return np.fromiter(names, dtype, len(names))
