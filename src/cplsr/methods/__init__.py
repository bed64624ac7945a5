"""The paper's competitors on one footing: the same backbone, base images, episodes and intervals for all."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
