"""Image domains made by code from a seed: nothing to download, no license to accept."""

from cplsr.data.procedural.domain import DOMAINS, ProceduralDomain, Recipe, make_domain

__all__ = ["DOMAINS", "ProceduralDomain", "Recipe", "make_domain"]
