"""What an adapter changed: embedding space, heads, attention, pictures, cost."""

from __future__ import annotations

import base64

from cplsr.records.analysis import Analysis, CostRow, DomainAnalysis, HeadChange, Measures, Panel
from cplsr.report.figures import figure, figures
from cplsr.report.heat_map import heat_map
from cplsr.report.lines import Line, line_chart, line_legend
from cplsr.report.markup import element, number, significant, text
from cplsr.report.material import Analyzed
from cplsr.report.scatter import scatter_chart, scatter_legend
from cplsr.report.sections import Section, paragraph, part, table_with_sources
from cplsr.report.tables import Cell, Table

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


def analysis_sections(analyses: tuple[Analyzed, ...]) -> list[Section]:
    """All that analyses say, subject by subject."""
    subjects = (
        ("space", "Embedding space and bound", SPACE_WORDS, _space),
        ("umap", "Embeddings in two dimensions", UMAP_WORDS, _umap),
        ("heads", "Heads, by how much they changed", HEADS_WORDS, _heads),
        ("entropy", "Attention: how far it spreads", ENTROPY_WORDS, _entropy),
        ("attention", "Attention: where it looks", ATTENTION_WORDS, _attention),
        ("cost", "Cost", COST_WORDS, _cost),
    )
    sections = []
    for key, title, explanation, write in subjects:
        body = "".join(part(entry.name, write(entry.analysis), of=len(analyses)) for entry in analyses)
        sections.append(Section(key, title, paragraph(explanation) + body if body else ""))
    return sections


def _space(analysis: Analysis) -> str:
    if not analysis.domains:
        return ""
    tables = [table_with_sources(spread_table(analysis.domains))]
    shots = dict.fromkeys(shot for domain in analysis.domains.values() for shot in domain.before.bound)
    tables += [table_with_sources(bound_table(analysis.domains, shot)) for shot in shots]
    return "".join(tables)


def spread_table(domains: dict[str, DomainAnalysis]) -> Table:
    """Spread and distance from the base domain, before and after, and how far the embeddings moved."""
    moved = any(domain.drift is not None for domain in domains.values())
    rows = tuple(
        (
            Cell(name),
            Cell(f"{domain.images:,}"),
            *_lower_bold(domain.before.within_between, domain.after.within_between if domain.after else None),
            *_lower_bold(domain.before.proxy_distance, domain.after.proxy_distance if domain.after else None),
            *(_drift(domain) if moved else ()),
        )
        for name, domain in domains.items()
    )
    columns = ["domain", "images", "within/between\nbefore", "after", "proxy distance\nbefore", "after"]
    if moved:
        columns += ["cosine\nbefore, after", "common\nshift"]
    return Table(
        title="Spread of the classes, distance from the base",
        columns=tuple(columns),
        rows=rows,
        caption="Bold: the lower of two.",
    )


def _drift(domain: DomainAnalysis) -> tuple[Cell, Cell]:
    cosine, shift = (None, None) if domain.drift is None else (domain.drift.cosine, domain.drift.shift)
    return Cell(number(cosine, 3)), Cell(number(shift, 3))


def bound_table(domains: dict[str, DomainAnalysis], shot: int) -> Table:
    """The terms of the bound at one shot, before → after."""
    terms = {
        "V_tr": "V_tr",
        "V_wit": "V_wit",
        "Ed2": "Ed²",
        "tr_sigma": "tr Σ",
        "tr_sigma_tau": "tr Σ_τ",
        "base_term": "base term",
    }
    rows = []
    for name, domain in domains.items():
        cells = [Cell(name)]
        for term in terms:
            stages = [stage.bound.get(shot) for stage in (domain.before, domain.after) if stage is not None]
            cells.append(Cell(" → ".join(significant(getattr(found, term, None)) for found in stages)))
        rows.append(tuple(cells))
    caption = "Before → after. λ and the term of the sample size are not estimated."
    return Table(
        title=f"Terms of the bound, {shot}-shot", columns=("domain", *terms.values()), rows=tuple(rows), caption=caption
    )


def _lower_bold(before: float | None, after: float | None) -> tuple[Cell, Cell]:
    known = before is not None and after is not None
    first = Cell(number(before, 3), bold=known and before < after)  # type: ignore[operator]
    return first, Cell(number(after, 3), bold=known and after < before)  # type: ignore[operator]


def _umap(analysis: Analysis) -> str:
    parts = []
    for domain in dict.fromkeys(panel.domain for panel in analysis.panels):
        panels = [panel for panel in analysis.panels if panel.domain == domain]
        drawings = figures(*(_panel(panel) for panel in panels))
        parts.append(element("h3", text(domain)) + scatter_legend(panels[0].classes) + drawings)
    return "".join(parts)


def _panel(panel: Panel) -> str:
    chart = scatter_chart(
        panel.x,
        panel.y,
        panel.labels,
        panel.classes,
        title=f"{panel.domain} {panel.stage} adapting",
        description=f"{len(panel.x)} images of {len(panel.classes)} classes.",
    )
    return figure(chart, panel.stage)


def _heads(analysis: Analysis) -> str:
    if not analysis.heads:
        return ""
    drawings = [_head_map(analysis.heads, "distance", "Distance of C from the identity, ‖C − I‖")]
    if all(head.entropy_change is not None for head in analysis.heads):
        drawings.append(
            _head_map(analysis.heads, "entropy_change", "Change of the attention's entropy (size; sign in the table)")
        )
    return figures(*drawings) + table_with_sources(heads_table(analysis.heads))


def _head_map(heads: tuple[HeadChange, ...], what: str, caption: str) -> str:
    layers, numbers = sorted({head.layer for head in heads}), sorted({head.head for head in heads})
    found = {(head.layer, head.head): abs(getattr(head, what)) for head in heads}
    values = [[found.get((layer, number_)) for number_ in numbers] for layer in layers]
    top = max(heads, key=lambda head: abs(getattr(head, what)))
    chart = heat_map(
        values,
        [str(layer) for layer in layers],
        [str(number_) for number_ in numbers],
        title=caption,
        description=f"Largest in layer {top.layer}, head {top.head}: {number(getattr(top, what))}.",
        row_axis="layer",
        column_axis="head",
        high=max(found.values()),
        digits=2,
    )
    return figure(chart, caption)


def heads_table(heads: tuple[HeadChange, ...]) -> Table:
    """The heads that changed most."""
    ranked = sorted(heads, key=lambda head: -head.distance)[:MOST_HEADS]
    rows = tuple(
        tuple(
            Cell(content)
            for content in (
                str(head.layer),
                str(head.head),
                number(head.distance, 3),
                f"{number(head.singular_min, 3)} – {number(head.singular_max, 3)}",
                significant(head.condition),
                number(head.asymmetry, 3),
                number(head.entropy_change, 3, sign=True),
            )
        )
        for head in ranked
    )
    more = f"The first {len(ranked)} of {len(heads)} heads." if len(ranked) < len(heads) else ""
    columns = ("layer", "head", "‖C − I‖", "singular values", "condition", "asymmetry", "entropy change")
    return Table(title="Heads that changed most", columns=columns, rows=rows, caption=more)


def _entropy(analysis: Analysis) -> str:
    drawings = [
        _entropy_of(name, domain) for name, domain in analysis.domains.items() if domain.before.attention_entropy
    ]
    return figures(*drawings) if drawings else ""


def _entropy_of(name: str, domain: DomainAnalysis) -> str:
    lines = [_entropy_line("before", domain.before, 0)]
    if domain.after is not None:
        lines.append(_entropy_line("after", domain.after, 1))
    chart = line_chart(
        lines,
        title=f"Entropy of attention on {name}",
        description="; ".join(f"{line.name}: {', '.join(number(y) for _, y in line.points)}" for line in lines),
        x="layer",
        y="entropy, nats",
    )
    return figure(chart, name, legend=line_legend(lines))


def _entropy_line(name: str, side: Measures, series: int) -> Line:
    means = [(float(layer), sum(heads) / len(heads)) for layer, heads in enumerate(side.attention_entropy) if heads]
    return Line(name, tuple(means), series=series, marked=True)


def _attention(analysis: Analysis) -> str:
    pictures = []
    for entry in analysis.attention:
        data = base64.b64encode(entry.png).decode("ascii")
        label = f"{entry.domain}: {entry.image}"
        drawing = element("img", src=f"data:image/png;base64,{data}", alt=f"Attention maps, {label}")
        pictures.append(figure(drawing, label, wide=True))
    return "".join(pictures)


def _cost(analysis: Analysis) -> str:
    if not analysis.cost:
        return ""
    drawings = [
        _cost_curve(analysis.cost, "parameters", "parameters"),
        _cost_curve(analysis.cost, "flops", "FLOPs per image"),
    ]
    if any(entry.seconds is not None for entry in analysis.cost):
        drawings.append(_cost_curve(analysis.cost, "seconds", "seconds per image"))
    return figures(*drawings) + table_with_sources(cost_table(analysis.cost))


def _cost_curve(costs: tuple[CostRow, ...], what: str, label: str) -> str:
    lines = []
    for series, adapter in enumerate(dict.fromkeys(entry.adapter for entry in costs)):
        points = [
            (float(entry.tokens), float(getattr(entry, what)))
            for entry in costs
            if entry.adapter == adapter and (getattr(entry, what) or 0) > 0
        ]
        if points:
            lines.append(Line(adapter, tuple(sorted(points)), series=series, marked=True))
    chart = line_chart(
        lines,
        title=f"{label} by number of tokens",
        description=f"{len(lines)} adapters.",
        x="tokens",
        y=label,
        log_y=True,
    )
    return figure(chart, label, legend=line_legend(lines))


def cost_table(costs: tuple[CostRow, ...]) -> Table:
    """Every adapter at every image size."""
    timed = any(entry.seconds is not None for entry in costs)
    rows = []
    for entry in costs:
        cells = [
            entry.adapter,
            f"{entry.image_size:,}",
            f"{entry.tokens:,}",
            f"{entry.parameters:,.0f}",
            number(entry.flops / 1e9, 3),
        ]
        if timed:
            cells.append("" if entry.seconds is None else significant(1000 * entry.seconds))
        rows.append(tuple(map(Cell, cells)))
    columns = (
        "adapter",
        "image size",
        "tokens",
        "parameters",
        "GFLOPs per image",
        *(["ms per image"] if timed else []),
    )
    return Table(title="What adapters cost in a forward pass", columns=columns, rows=tuple(rows))
