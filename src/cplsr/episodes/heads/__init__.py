"""Heads: from support embeddings and labels to scores of query embeddings, one file each."""

from __future__ import annotations

from typing import Any

from cplsr.declared import nearest, parse_options
from cplsr.episodes.heads.alpha_tim import AlphaTim
from cplsr.episodes.heads.auto import Auto
from cplsr.episodes.heads.bd_cspn import BdCspn
from cplsr.episodes.heads.centered import Centered
from cplsr.episodes.heads.em import Em
from cplsr.episodes.heads.head import Head, ProductHead, Products
from cplsr.episodes.heads.knn import Knn
from cplsr.episodes.heads.lda import Lda
from cplsr.episodes.heads.logistic import Logistic
from cplsr.episodes.heads.prototypes import Prototypes
from cplsr.episodes.heads.ridge import Ridge
from cplsr.errors import InputError

HEADS: dict[str, type[Head]] = {
    head.name: head for head in (Auto, Prototypes, Ridge, Lda, Logistic, Knn, Centered, Em, BdCspn, AlphaTim)
}
"""All heads by name; those that see the queries of an episode together stand last."""

__all__ = ["HEADS", "Head", "ProductHead", "Products", "make_head"]


def make_head(text: str, **options: Any) -> Head:
    """Make a head by its name, with options behind a colon or as arguments; others keep their defaults.

    Example:
        >>> make_head("em:gamma=1,center=classes") == make_head("em", gamma=1.0, center="classes")
        True
    """
    name, colon, written = text.partition(":")
    if name not in HEADS:
        raise InputError(f"the head {name!r} is not known: {nearest(name, HEADS)}")
    if colon:
        options = parse_options(written.split(","), f"the head {name}:", "ridge:penalty=1") | options
    return HEADS[name].from_table(options, f"the head {name}")
