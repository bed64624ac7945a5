"""What an adapter changed: embedding space, heads, attention, pictures, cost."""

from __future__ import annotations

import base64
from collections.abc import Callable
from functools import partial

from cplsr.records.analysis import Analysis, CostRow, DomainAnalysis, HeadChange, Measures
from cplsr.report.figures import figure, figures
from cplsr.report.heat_map import heat_map
from cplsr.report.lines import Line, line_chart
from cplsr.report.markup import element, number, significant, text
from cplsr.report.scatter import scatter_chart, scatter_legend
from cplsr.report.sections import table_with_sources
from cplsr.report.tables import Cells, Table, table

TERMS = {
    "tr_sigma": "spread between\nclasses tr Σ",
    "tr_sigma_tau": "within them\ntr Σ_τ",
    "V_tr": "unequal spread\nV_tr",
    "V_wit": "within-class\nV_wit",
    "Ed2": "distances\nEd²",
    "base_term": "base\nterm",
}
"""Terms of the bound, and how they are written."""
MOST_HEADS = 12
SPACE_WORDS = (
    "On embeddings of unit length. V_tr, V_wit and Ed² are the terms of the bound (Eq. 15–17); the base term is made "
    "of them (Eq. 14). λ and the term of the sample size are not estimated. The distance from the base tells how "
    "easily base and target images are told apart. Cosine and shift tell how far the adapter moved the embeddings: the "
    "mean cosine of an image before and after, and the way of the mean embedding."
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


def tables(analysis: Analysis) -> list[Table]:
    """All tables of what was measured; only those that have rows."""
    made = (domain_table(analysis), bound_table(analysis), heads_table(analysis.heads), cost_table(analysis.cost))
    return [each for each in made if each.rows]


def _space(analysis: Analysis) -> str:
    return "".join(table_with_sources(each) for each in (domain_table(analysis), bound_table(analysis)) if each.rows)


def domain_table(analysis: Analysis) -> Table:
    """A row for each domain: spread of classes, distance from the base domain, attention entropy, and the drift."""
    moved = any(domain.drift is not None for domain in analysis.domains.values())
    rows: list[Cells] = []
    for name, domain in analysis.domains.items():
        measures = (lambda m: m.within_between, lambda m: m.proxy_distance, _mean_entropy)
        drift = [significant(getattr(domain.drift, what, None), 4) for what in ("cosine", "shift")] if moved else []
        rows.append((name, f"{domain.images:,}", *(_before_after(domain, measure) for measure in measures), *drift))
    columns = ["domain", "images", "spread within classes\n/ between them", "distance\nfrom base", "attention\nentropy"]
    caption = (
        "Spread: smaller is better separated. Distance: 0 not to be told apart, 2 always. "
        "Entropy of the class token's attention in nats, mean of layers and heads: smaller looks at fewer places."
    )
    if moved:
        columns += ["cosine\nwith before", "common\nshift"]
        caption += " Shift: of the mean embedding, in units of the spread before."
    return table("What the embeddings look like" + _stages(analysis), columns, rows, caption)


def bound_table(analysis: Analysis) -> Table:
    """The terms of the bound, a row for each domain and shot."""
    rows: list[Cells] = []
    for name, domain in analysis.domains.items():
        for shot in domain.before.bound:
            figures = (_before_after(domain, partial(_term, shot, term)) for term in TERMS)
            rows.append((name, str(shot), *figures))
    way = analysis.settings.get("way")
    most = f", of at most {way - 1} at this way," if isinstance(way, int) else ""
    caption = f"A base term of 1 or more{most} bounds nothing: read it as a comparison."
    title = "Terms of the generalization bound (Eq. 14-17)" + _stages(analysis)
    return table(title, ("domain", "shot", *TERMS.values()), rows, caption)


def _mean_entropy(measures: Measures) -> float | None:
    heads = [value for layer in measures.attention_entropy for value in layer]
    return sum(heads) / len(heads) if heads else None


def _term(shot: int, term: str, measures: Measures) -> float | None:
    return getattr(measures.bound.get(shot), term, None)


def _stages(analysis: Analysis) -> str:
    return "" if analysis.adapter is None else ": frozen → adapted"


def _before_after(domain: DomainAnalysis, measure: Callable[[Measures], float | None]) -> str:
    figures = [measure(stage) for stage in (domain.before, domain.after) if stage is not None]
    return "" if figures[0] is None else " → ".join(significant(figure, 4) for figure in figures)


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


HEADS: dict[str, Callable[[HeadChange], str]] = {
    "layer": lambda head: str(head.layer),
    "head": lambda head: str(head.head),
    "‖C − I‖": lambda head: number(head.distance, 3),
    "singular values": lambda head: f"{number(head.singular_min, 3)} – {number(head.singular_max, 3)}",
    "condition": lambda head: significant(head.condition),
    "asymmetry": lambda head: number(head.asymmetry, 3),
    "entropy change": lambda head: number(head.entropy_change, 3, sign=True),
}


def heads_table(heads: tuple[HeadChange, ...]) -> Table:
    """The heads that changed most."""
    ranked = sorted(heads, key=lambda head: -head.distance)[:MOST_HEADS]
    more = f"The first {len(ranked)} of {len(heads)} heads." if len(ranked) < len(heads) else ""
    rows = [tuple(write(head) for write in HEADS.values()) for head in ranked]
    return table("Heads that changed most", HEADS, rows, more)


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
        description="; ".join(f"{line.name}: {', '.join(number(point[1]) for point in line.points)}" for line in lines),
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


COSTS: dict[str, Callable[[CostRow], str]] = {
    "adapter": lambda entry: entry.adapter,
    "image size": lambda entry: f"{entry.image_size:,}",
    "tokens": lambda entry: f"{entry.tokens:,}",
    "parameters": lambda entry: f"{entry.parameters:,.0f}",
    "GFLOPs per image": lambda entry: number(entry.flops / 1e9, 3),
    "ms per image": lambda entry: "" if entry.seconds is None else significant(1000 * entry.seconds),
}


def cost_table(costs: tuple[CostRow, ...]) -> Table:
    """Every adapter at every image size; times only where some were measured."""
    timed = any(entry.seconds is not None for entry in costs)
    columns = {name: write for name, write in COSTS.items() if timed or name != "ms per image"}
    rows = [tuple(write(entry) for write in columns.values()) for entry in costs]
    return table("What adapters cost in a forward pass", columns, rows)


SUBJECTS: tuple[tuple[str, str, str, Callable[[Analysis], str]], ...] = (
    ("space", "Embedding space and bound", SPACE_WORDS, _space),
    ("umap", "Embeddings in two dimensions", UMAP_WORDS, _umap),
    ("heads", "Heads, by how much they changed", HEADS_WORDS, _heads),
    ("entropy", "Attention: how far it spreads", ENTROPY_WORDS, _entropy),
    ("attention", "Attention: where it looks", ATTENTION_WORDS, _attention),
    ("cost", "Cost", COST_WORDS, _cost),
)
"""The sections an analysis gives: key, title, explanation, and what is written in it."""
