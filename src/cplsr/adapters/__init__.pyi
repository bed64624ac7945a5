# What a new kind of adapter is made of; loaded through lazy_loader.
from .base import Adapter as Adapter
from .base import Shape as Shape
from .base import seeded as seeded
