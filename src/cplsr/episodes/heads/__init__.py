"""Heads: from support embeddings and labels to scores of query embeddings, one file each."""

from __future__ import annotations

from typing import Any

from cplsr.declared import parse_options
from cplsr.episodes.heads.head import Head, ProductHead, Products, Task
from cplsr.named import Named

HEADS: Named[type[Head]] = Named(
    "heads",
    "head",
    {
        "auto": "cplsr.episodes.heads.auto:Auto",
        "prototypes": "cplsr.episodes.heads.prototypes:Prototypes",
        "ridge": "cplsr.episodes.heads.ridge:Ridge",
        "lda": "cplsr.episodes.heads.lda:Lda",
        "logistic": "cplsr.episodes.heads.logistic:Logistic",
        "knn": "cplsr.episodes.heads.knn:Knn",
        "centered": "cplsr.episodes.heads.centered:Centered",
        "em": "cplsr.episodes.heads.em:Em",
        "bd_cspn": "cplsr.episodes.heads.bd_cspn:BdCspn",
        "alpha_tim": "cplsr.episodes.heads.alpha_tim:AlphaTim",
    },
)
"""All heads by name; those that see the queries of an episode together stand last."""

__all__ = ["HEADS", "Head", "ProductHead", "Products", "Task", "make_head"]


def make_head(text: str, **options: Any) -> Head:
    """Make a head by its name, with options behind a colon or as arguments; others keep their defaults.

    Example:
        >>> make_head("em:gamma=1,center=classes") == make_head("em", gamma=1.0, center="classes")
        True
    """
    name, colon, written = text.partition(":")
    head = HEADS.find(name)
    if colon:
        options = parse_options(written.split(","), f"the head {name}:", "ridge:penalty=1") | options
    return head.from_table(options, f"the head {name}")
