# What a new objective is made of; loaded through lazy_loader.
from .objective import Embed as Embed
from .objective import Loss as Loss
from .objective import Objective as Objective
from .objective import TrainingEpisode as TrainingEpisode
