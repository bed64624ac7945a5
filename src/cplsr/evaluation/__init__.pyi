# What adapts on support sets, or answers episodes in a way of its own; loaded through lazy_loader.
from .adapting import Adaptation as Adaptation
from .contenders import Contender as Contender
from .contenders import HeadContender as HeadContender
from .embed import Embeddings as Embeddings
from .metrics import EpisodeScores as EpisodeScores
