"""How trainings went: loss, validation, distance of C from the identity, speed."""

from __future__ import annotations

from functools import partial

from cplsr.report.figures import figures
from cplsr.report.lines import Line, line_chart, moving_mean
from cplsr.report.markup import number
from cplsr.report.sources import Training

chart = partial(line_chart, x="base episode")


def curves(training: Training) -> str:
    """Curves of a run."""
    drawings = [_loss(training)] if training.steps else []
    drawings += [_validation(training)] if training.validations else []
    drawings += [_speed(training)] if training.steps else []
    return figures([*drawings, *_distances(training)]) if drawings else ""


def _loss(training: Training) -> str:
    points = tuple((float(episode), loss) for episode, loss, _ in training.steps)
    window = max(1, len(points) // 20)
    lines = [Line("loss", points, faint=window > 1)]
    if window > 1:
        lines.append(Line(f"mean of the last {window} episodes", moving_mean(points, window)))
    first, last = lines[-1].points[0][1], lines[-1].points[-1][1]
    spoken = f"From {number(first, 3)} to {number(last, 3)} over {len(points)} steps."
    return chart(lines, title="Training loss", description=spoken, y="cross-entropy", caption="Loss")


def _validation(training: Training) -> str:
    points = [(float(episode), accuracy, half) for episode, accuracy, half in training.validations]
    curve = Line("validation accuracy, 95 % interval", points, marked=True)
    spoken = ", ".join(f"{number(value)} % after {episode:.0f}" for episode, value, _ in points)
    few = {1: ": one point, no curve", 2: ": two points, the line between them is no trend"}.get(len(points), "")
    caption = f"Validation{few}"
    return chart([curve], title="Validation accuracy", description=spoken, y="accuracy, %", caption=caption)


def _speed(training: Training) -> str:
    points = tuple((float(episode), rate) for episode, _, rate in training.steps)
    median = number(sorted(rate for _, rate in points)[len(points) // 2], 0)
    return chart(
        [Line("images per second", points)],
        title="Speed of training",
        description=f"{median} images per second in the middle.",
        y="images / s",
        include_y=(0.0,),
        caption=f"Speed: median {median} images/s",
    )


def _distances(training: Training) -> list[str]:
    """How far each layer's C moved, for adapters that have one."""
    layers: dict[str, list[tuple[float, float]]] = {}
    for entry in training.metrics:
        for layer, distance in entry.distance_from_identity.items():
            layers.setdefault(layer, []).append((float(entry.episode), distance))
    lines = [
        Line(f"layer {layer}", tuple(points), series=series, marked=len(points) < 30)
        for series, (layer, points) in enumerate(layers.items(), start=1)
    ]
    if not lines:
        return []
    spoken = ", ".join(f"{entry.name}: {number(entry.points[-1][1])}" for entry in lines)
    caption = "How far the projections moved, by layer"
    title = "Distance of C from the identity"
    return [chart(lines, title=title, description=spoken, y="‖C − I‖", include_y=(0.0,), caption=caption)]
