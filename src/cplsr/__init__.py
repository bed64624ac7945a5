"""Cross-domain few-shot image classification with coalescent projections and latent space reservation.

Everything public is importable from here and declared in `__init__.pyi`; the modules behind the names load when a
name is first used, so that `import cplsr` and `cplsr --help` stay fast.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
