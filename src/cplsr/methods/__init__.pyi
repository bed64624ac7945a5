# What a new method is made of; loaded through lazy_loader.
from .base import Method as Method
from .base import Share as Share
from .base import Size as Size
from .base import Times as Times
from .base import agreement as agreement
from .base import prototype_logits as prototype_logits
from .base import prototype_loss as prototype_loss
