"""How trainings went: loss, validation, distance of C from the identity, speed."""

from __future__ import annotations

from cplsr.report.figures import figure, figures
from cplsr.report.lines import Line, line_chart, line_legend, moving_mean
from cplsr.report.markup import number
from cplsr.report.material import Training
from cplsr.report.sections import Section, part

EPISODES = "base episode"


def training_section(trainings: tuple[Training, ...]) -> Section:
    """Curves of every run."""
    bodies = [
        part(entry.name, figures(*_curves(entry)), of=len(trainings))
        for entry in trainings
        if entry.steps or entry.validations
    ]
    return Section("training", "Training", "".join(bodies))


def _curves(training: Training) -> list[str]:
    curves = []
    if training.steps:
        curves += [_loss(training), _speed(training)]
    if training.validations:
        curves.insert(1, _validation(training))
    if training.distances:
        curves.append(_distances(training))
    return curves


def _window(count: int) -> int:
    return max(1, count // 20)


def _loss(training: Training) -> str:
    points = tuple((float(episode), loss) for episode, loss, _ in training.steps)
    window = _window(len(points))
    lines = [Line("loss", points, series=1, faint=window > 1)]
    if window > 1:
        lines.append(Line(f"mean of the last {window} episodes", moving_mean(points, window), series=1))
    first, last = lines[-1].points[0][1], lines[-1].points[-1][1]
    chart = line_chart(
        lines,
        title="Training loss",
        description=f"From {number(first, 3)} to {number(last, 3)} over {len(points)} steps.",
        x=EPISODES,
        y="cross-entropy",
    )
    return figure(chart, "Loss", legend=line_legend(lines))


def _validation(training: Training) -> str:
    points = tuple((float(episode), accuracy) for episode, accuracy, _ in training.validations)
    halves = tuple(half for _, _, half in training.validations)
    entry = Line("validation accuracy, 95 % interval", points, series=1, half_widths=halves, marked=True)
    chart = line_chart(
        [entry],
        title="Validation accuracy",
        description=", ".join(f"{number(value)} % after {place:.0f}" for place, value in points),
        x=EPISODES,
        y="accuracy, %",
    )
    return figure(chart, "Validation", legend=line_legend([entry]))


def _speed(training: Training) -> str:
    points = tuple((float(episode), rate) for episode, _, rate in training.steps)
    median = sorted(rate for _, rate in points)[len(points) // 2]
    entry = Line("images per second", points)
    chart = line_chart(
        [entry],
        title="Speed of training",
        description=f"{number(median, 0)} images per second in the middle.",
        x=EPISODES,
        y="images / s",
        include_y=(0.0,),
    )
    return figure(chart, f"Speed: median {number(median, 0)} images/s", legend=line_legend([entry]))


def _distances(training: Training) -> str:
    lines = [
        Line(f"layer {layer}", tuple((float(x), y) for x, y in points), series=number_ + 1, marked=len(points) < 30)
        for number_, (layer, points) in enumerate(training.distances.items())
    ]
    chart = line_chart(
        lines,
        title="Distance of C from the identity",
        description=", ".join(f"{entry.name}: {number(entry.points[-1][1])}" for entry in lines),
        x=EPISODES,
        y="‖C − I‖",
        include_y=(0.0,),
    )
    return figure(chart, "How far the projections moved, by layer", legend=line_legend(lines))
