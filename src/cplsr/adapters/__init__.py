"""What learns: small sets of parameters put on a frozen backbone, one kind a file."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
