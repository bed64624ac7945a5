"""What an adapter changed: embedding space, heads, attention, pictures, cost."""

from __future__ import annotations

import base64
from collections.abc import Callable

from cplsr.records.analysis import Analysis, CostRow, DomainAnalysis, HeadChange
from cplsr.report.figures import figure, figures
from cplsr.report.heat_map import heat_map
from cplsr.report.lines import Line, line_chart
from cplsr.report.markup import element, number, significant, text
from cplsr.report.scatter import scatter_chart, scatter_legend
from cplsr.report.sections import table_with_sources
from cplsr.report.tables import Cell, Cells, Table, table

TERMS = {"V_tr": "V_tr", "V_wit": "V_wit", "Ed2": "Ed²", "tr_sigma": "tr Σ", "tr_sigma_tau": "tr Σ_τ",
         "base_term": "base term"}  # fmt: skip
"""Terms of the bound, and how they are written."""
MOST_HEADS = 12
SPACE_WORDS = (
    "On embeddings of unit length. Within/between is the spread inside the classes over the spread of their means: "
    "lower is easier. V_tr, V_wit and Ed² are the terms of the bound (Eq. 15–17); the base term is made of them "
    "(Eq. 14). It may exceed the largest possible error and then says nothing by itself, but it can be compared. "
    "The proxy distance tells how easily base and target images are told apart: 0 not at all, 2 always. "
    "Cosine and shift tell how far the adapter moved the embeddings: the mean cosine of an image before and after, and "
    "the way of the mean embedding in units of the spread before."
)
UMAP_WORDS = "Each point is an image, each color and shape a class. Only who is near whom has a meaning, not the axes."
HEADS_WORDS = (
    "Every head has its own C, which starts as the identity. The distance is ‖C − I‖ (Frobenius); asymmetry is 0 for a "
    "symmetric C; the condition is the largest singular value over the smallest."
)
ENTROPY_WORDS = (
    "Mean entropy of the class token's attention in each layer: high where it looks everywhere, low where it picks."
)
ATTENTION_WORDS = "The image, then where the class token looks in each head, before and after adapting."
COST_WORDS = "What the kinds of adapters cost as images give more tokens. A merged coalescent projection costs nothing."


def _space(analysis: Analysis) -> str:
    if not analysis.domains:
        return ""
    shots = dict.fromkeys(shot for domain in analysis.domains.values() for shot in domain.before.bound)
    tables = [spread_table(analysis.domains), *(bound_table(analysis.domains, shot) for shot in shots)]
    return "".join(map(table_with_sources, tables))


def spread_table(domains: dict[str, DomainAnalysis]) -> Table:
    """Spread and distance from the base domain, before and after, and how far the embeddings moved."""
    moved = any(domain.drift is not None for domain in domains.values())
    rows: list[Cells] = []
    for name, domain in domains.items():
        cells = [*_lower_bold(domain, "within_between"), *_lower_bold(domain, "proxy_distance")]
        if moved:
            cells += [Cell(number(getattr(domain.drift, what, None), 3)) for what in ("cosine", "shift")]
        rows.append((name, f"{domain.images:,}", *cells))
    columns = ["domain", "images", "within/between\nbefore", "after", "proxy distance\nbefore", "after"]
    if moved:
        columns += ["cosine\nbefore, after", "common\nshift"]
    return table("Spread of the classes, distance from the base", columns, rows, "Bold: the lower of two.")


def bound_table(domains: dict[str, DomainAnalysis], shot: int) -> Table:
    """The terms of the bound at one shot, before → after."""
    rows = []
    for name, domain in domains.items():
        stages = [stage.bound.get(shot) for stage in (domain.before, domain.after) if stage is not None]
        rows.append((name, *(" → ".join(significant(getattr(own, term, None)) for own in stages) for term in TERMS)))
    caption = "Before → after. λ and the term of the sample size are not estimated."
    return table(f"Terms of the bound, {shot}-shot", ("domain", *TERMS.values()), rows, caption)


def _lower_bold(domain: DomainAnalysis, what: str) -> list[Cell]:
    values = [getattr(stage, what, None) for stage in (domain.before, domain.after)]
    higher = max(values) if None not in values else None  # type: ignore[type-var]
    return [Cell(number(value, 3), bold=higher is not None and value < higher) for value in values]


def _umap(analysis: Analysis) -> str:
    parts = []
    for domain in dict.fromkeys(panel.domain for panel in analysis.panels):
        panels = [panel for panel in analysis.panels if panel.domain == domain]
        parts += [element("h3", text(domain)), scatter_legend(panels[0].classes), figures(map(scatter_chart, panels))]
    return "".join(parts)


def _heads(analysis: Analysis) -> str:
    heads = analysis.heads
    if not heads:
        return ""
    drawings = [_head_map(heads, "distance", "Distance of C from the identity, ‖C − I‖")]
    if all(head.entropy_change is not None for head in heads):
        caption = "Change of the attention's entropy (size; sign in the table)"
        drawings.append(_head_map(heads, "entropy_change", caption))
    return figures(drawings) + table_with_sources(heads_table(heads))


def _head_map(heads: tuple[HeadChange, ...], what: str, title: str) -> str:
    layers, numbers = sorted({head.layer for head in heads}), sorted({head.head for head in heads})
    sizes = {(head.layer, head.head): abs(getattr(head, what)) for head in heads}
    top = max(heads, key=lambda head: sizes[head.layer, head.head])
    return heat_map(
        [[sizes.get((layer, head)) for head in numbers] for layer in layers],
        [str(layer) for layer in layers],
        [str(head) for head in numbers],
        title=title,
        description=f"Largest in layer {top.layer}, head {top.head}: {number(getattr(top, what))}.",
        axis_names=("layer", "head"),
        high=max(sizes.values()),
        digits=2,
    )


def heads_table(heads: tuple[HeadChange, ...]) -> Table:
    """The heads that changed most."""
    ranked = sorted(heads, key=lambda head: -head.distance)[:MOST_HEADS]
    rows = [
        (
            str(head.layer),
            str(head.head),
            number(head.distance, 3),
            f"{number(head.singular_min, 3)} – {number(head.singular_max, 3)}",
            significant(head.condition),
            number(head.asymmetry, 3),
            number(head.entropy_change, 3, sign=True),
        )
        for head in ranked
    ]
    more = f"The first {len(ranked)} of {len(heads)} heads." if len(ranked) < len(heads) else ""
    columns = ("layer", "head", "‖C − I‖", "singular values", "condition", "asymmetry", "entropy change")
    return table("Heads that changed most", columns, rows, more)


def _entropy(analysis: Analysis) -> str:
    return figures(
        _entropy_of(name, domain) for name, domain in analysis.domains.items() if domain.before.attention_entropy
    )


def _entropy_of(name: str, domain: DomainAnalysis) -> str:
    lines = []
    for series, (stage, measures) in enumerate((("before", domain.before), ("after", domain.after))):
        layers = [] if measures is None else measures.attention_entropy
        means = [(float(layer), sum(heads) / len(heads)) for layer, heads in enumerate(layers) if heads]
        if measures is not None:
            lines.append(Line(stage, tuple(means), series=series, marked=True))
    return line_chart(
        lines,
        title=f"Entropy of attention on {name}",
        description="; ".join(f"{line.name}: {', '.join(number(y) for _, y in line.points)}" for line in lines),
        x="layer",
        y="entropy, nats",
        caption=name,
    )


def _attention(analysis: Analysis) -> str:
    pictures = []
    for entry in analysis.attention:
        data = base64.b64encode(entry.png).decode("ascii")
        caption = f"{entry.domain}: {entry.image}"
        drawing = element("img", src=f"data:image/png;base64,{data}", alt=f"Attention maps, {caption}")
        pictures.append(figure(drawing, caption, wide=True))
    return "".join(pictures)


def _cost(analysis: Analysis) -> str:
    if not analysis.cost:
        return ""
    subjects = {"parameters": "parameters", "flops": "FLOPs per image"}
    if any(entry.seconds is not None for entry in analysis.cost):
        subjects["seconds"] = "seconds per image"
    drawings = [_cost_curve(analysis.cost, what, title) for what, title in subjects.items()]
    return figures(drawings) + table_with_sources(cost_table(analysis.cost))


def _cost_curve(costs: tuple[CostRow, ...], what: str, name: str) -> str:
    lines = []
    for series, adapter in enumerate(dict.fromkeys(entry.adapter for entry in costs)):
        own = [(float(entry.tokens), float(getattr(entry, what) or 0)) for entry in costs if entry.adapter == adapter]
        if points := sorted(point for point in own if point[1] > 0):
            lines.append(Line(adapter, tuple(points), series=series, marked=True))
    return line_chart(
        lines,
        title=f"{name} by number of tokens",
        description=f"{len(lines)} adapters.",
        x="tokens",
        y=name,
        caption=name,
        log_y=True,
    )


def cost_table(costs: tuple[CostRow, ...]) -> Table:
    """Every adapter at every image size; times only where some were measured."""
    columns = ("adapter", "image size", "tokens", "parameters", "GFLOPs per image", "ms per image")
    rows = [
        (
            entry.adapter,
            f"{entry.image_size:,}",
            f"{entry.tokens:,}",
            f"{entry.parameters:,.0f}",
            number(entry.flops / 1e9, 3),
            "" if entry.seconds is None else significant(1000 * entry.seconds),
        )
        for entry in costs
    ]
    shown = len(columns) if any(entry.seconds is not None for entry in costs) else -1
    return table("What adapters cost in a forward pass", columns[:shown], [row[:shown] for row in rows])


SUBJECTS: tuple[tuple[str, str, str, Callable[[Analysis], str]], ...] = (
    ("space", "Embedding space and bound", SPACE_WORDS, _space),
    ("umap", "Embeddings in two dimensions", UMAP_WORDS, _umap),
    ("heads", "Heads, by how much they changed", HEADS_WORDS, _heads),
    ("entropy", "Attention: how far it spreads", ENTROPY_WORDS, _entropy),
    ("attention", "Attention: where it looks", ATTENTION_WORDS, _attention),
    ("cost", "Cost", COST_WORDS, _cost),
)
"""The sections an analysis gives: key, title, explanation, and what is written in it."""
