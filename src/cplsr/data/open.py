"""One door for every kind of source: `open_domain`."""

from __future__ import annotations

import difflib
from collections.abc import Callable, Iterable
from dataclasses import replace
from functools import partial
from pathlib import Path

from cplsr.data.domain import Domain
from cplsr.data.folder import open_folder
from cplsr.data.listing import TABLES, open_listing
from cplsr.errors import InputError
from cplsr.named import Named

FORMS = (
    "a folder with one folder per class, a csv with the columns path,label, tar files in webdataset's layout, a folder "
    "of parquet files, a folder written by `cplsr embed`, "
    "hf:user/name[@split], procedural:NAME, digits, or a benchmark data set as NAME:DIR (see `cplsr data list`)"
)
DOMAINS: Named[Callable[..., Domain]] = Named("domains", "domain", {})
"""What other packages open, by the name before the colon: `opener(rest, split=…, strict=…)`."""


def open_domain(source: str | Path, *, split: str | None = None, strict: bool = False) -> Domain:
    """Open labeled images; nothing is decoded yet.

    Args:
        source: a folder with one folder per class; a csv of path,label[,group]; `hf:user/name[:config][@split][#label
            column]`; a folder of parquet files or one written by `datasets.save_to_disk`; a tar file or a folder of
            them in webdataset's layout; a folder written by `cplsr embed`; `procedural:NAME`; `digits`; or `NAME:DIR`
            for a benchmark data set as downloaded, for example `eurosat:DIR` or `mini-imagenet:DIR@test`.
            A `Path` is always a path; write `./digits` for a folder of that name.
        split: the part to open, if the source has parts; for a folder, the folder below it.
        strict: raise for files that cannot be images instead of naming them in `Domain.skipped`.

    Raises:
        InputError: there is nothing of that name, or what is there has another layout.

    Example:
        >>> from cplsr import open_domain
        >>> leaves = open_domain("procedural:leaf")
        >>> len(leaves), leaves.classes[:2], leaves.reader(0).size
        (2280, ('cherry healthy', 'cherry mildew'), (96, 96))
    """
    if isinstance(source, Path):
        return _open_path(source, split, strict)
    kind, colon, rest = source.partition(":")
    if source == "digits":
        from cplsr.data.digits import open_digits

        _refuse_split(source, split)
        return open_digits()
    if kind == "hf" and colon:
        from cplsr.data.hub import find_on_hub

        return find_on_hub(rest).open(split)
    if kind == "procedural" and colon:
        from cplsr.data.rendered import open_procedural

        name, _, suffix = rest.partition("@")
        return open_procedural(name, split=split or suffix or None)
    if colon and not Path(source).exists():
        return _open_catalog(source, kind, rest, split, strict)
    return _open_path(Path(source).expanduser(), split, strict)


def open_targets(sources: Iterable[tuple[str | None, str]], *, strict: bool = False) -> dict[str, Domain]:
    """Open domains by the name given, or by their own where that is `None`; sources as for `open_domain`.

    Raises:
        InputError: Two of them have one name.
    """
    targets: dict[str, Domain] = {}
    for name, source in sources:
        domain = open_domain(source, strict=strict)
        name = name or domain.name
        if name in targets:
            raise InputError(f"two targets are called {name!r}: give one of them another name, as NAME={source}")
        targets[name] = domain
    return targets


def _open_path(path: Path, split: str | None, strict: bool) -> Domain:
    from cplsr.data.hub import find_saved, is_saved_data_set
    from cplsr.data.tar import is_tar, open_tar
    from cplsr.data.vectors import is_vectors, open_vectors

    if not path.exists():
        raise InputError(f"{path} does not exist: give {FORMS}")
    if is_tar(path):
        _refuse_split(path, split)
        return open_tar(path, strict=strict)
    if is_vectors(path):
        _refuse_split(path, split)
        return open_vectors(path)
    if path.is_file():
        if path.suffix.lower() not in TABLES:
            raise InputError(f"{path} is a file of unknown kind: give {FORMS}")
        _refuse_split(path, split)
        return open_listing(path, strict=strict)
    if is_saved_data_set(path):
        return find_saved(path).open(split)
    return open_folder(path / split if split else path, strict=strict)


def _refuse_split(source: str | Path, split: str | None) -> None:
    if split is not None:
        raise InputError(f"{source} has no splits, but split {split!r} was asked for: leave it out")


def _open_catalog(source: str, name: str, root: str, split: str | None, strict: bool) -> Domain:
    from cplsr.data.catalog import CATALOG

    entry = CATALOG.get(name.lower())
    if entry is None and name in DOMAINS:
        return DOMAINS.find(name)(root, split=split, strict=strict)
    if entry is None:
        near = difflib.get_close_matches(name.lower(), [*CATALOG, "hf", "procedural", *DOMAINS], n=1)
        hint = f"did you mean {near[0]}:{root}?" if near else f"give {FORMS}"
        raise InputError(f"{source!r} is neither a path nor the name of a data set: {hint}")
    if entry.splits:
        stem, at, suffix = root.rpartition("@")
        if at and suffix in entry.splits:
            root, split = stem, split or suffix
    else:
        _refuse_split(source, split)
    split = split or entry.default_split
    domain = entry.open(root, split, strict)
    if split == "train":
        return replace(domain, validation=partial(open_domain, f"{name}:{root}", split="val", strict=strict))
    return domain
