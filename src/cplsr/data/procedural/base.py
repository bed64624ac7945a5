"""The base domain: photographs of things and places, 64 classes to train on and 16 others to validate on."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from types import MappingProxyType

from cplsr.data.procedural.canvas import Painter
from cplsr.data.procedural.objects import paint_objects
from cplsr.data.procedural.scenes import SCENES

# Neighbors in these lists share a silhouette, a surface or a layout on purpose: no single one of the three gives a
# class away. What the validation classes show is never the subject of a training picture.
_TRAIN_OBJECTS = (
    "one striped mug", "one dotted mug", "pair of plain mug", "one brick house", "one wooden house",
    "row of checked house", "one scaly fish", "one striped fish", "scatter of plain fish", "one furry bird",
    "pair of patched bird", "one patched butterfly", "one ringed butterfly", "scatter of dotted butterfly",
    "one speckled mushroom", "one dotted mushroom", "row of striped mushroom", "one marbled bottle",
    "one checked bottle", "row of plain bottle", "one zigzag lamp", "one netted lamp", "one wooden chair",
    "pair of checked chair", "one plain car", "one zigzag car", "stack of striped car", "one wooden boat",
    "pair of netted boat", "one furry conifer", "row of speckled conifer", "one cracked star", "circle of plain star",
    "scatter of striped star", "one radiant ball", "one cracked ball", "stack of checked ball", "one ringed ball",
    "one marbled heart", "circle of zigzag heart", "one plain gear", "pair of speckled gear", "one netted tile",
    "one brick tile", "stack of wooden tile", "circle of radiant flower", "one plain key", "scatter of marbled ring",
)  # fmt: skip
_VAL_OBJECTS = (
    "one striped cactus", "one speckled cactus", "one radiant umbrella", "pair of dotted umbrella",
    "one wooden guitar", "one checked guitar", "one furry spiral", "row of marbled hourglass",
    "one brick hourglass", "scatter of scaly crescent", "circle of cracked drop", "one zigzag cross",
)  # fmt: skip
_VAL_SCENES = ("checker floor", "bridge", "orchard", "night sky")


def _object_painter(title: str) -> Painter:
    layout, *middle, silhouette = title.split()
    return partial(paint_objects, silhouette=silhouette, surface=middle[-1], layout=layout)


def _class_name(title: str) -> str:
    return title.removeprefix("one ")


TRAIN: Mapping[str, Painter] = MappingProxyType(
    {_class_name(title): _object_painter(title) for title in _TRAIN_OBJECTS}
    | {name: paint for name, paint in SCENES.items() if name not in _VAL_SCENES}
)
VAL: Mapping[str, Painter] = MappingProxyType(
    {_class_name(title): _object_painter(title) for title in _VAL_OBJECTS}
    | {name: SCENES[name] for name in _VAL_SCENES}
)
