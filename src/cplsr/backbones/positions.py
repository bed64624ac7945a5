"""Position embeddings for another image size."""

from __future__ import annotations

import math

from jaxtyping import Float
from torch import Tensor, cat
from torch.nn.functional import interpolate


def resize_positions(
    positions: Float[Tensor, "1 tokens dim"], prefix: int, grid: int, *, antialias: bool
) -> Float[Tensor, "1 new_tokens dim"]:
    """Interpolate the patch positions bicubically to another grid, so many rows and columns; in at least float32.

    The first `prefix` positions belong to no patch and stay as they are. To antialias is to average over positions that
    a smaller grid leaves out; transformers and DINO do not.
    """
    special, patches = positions[:, :prefix], positions[:, prefix:]
    old = math.isqrt(patches.shape[1])
    if old == grid:  # another size of images, whose last columns and rows fill no patch
        return positions
    plane = patches.reshape(1, old, old, -1).permute(0, 3, 1, 2)
    if plane.element_size() < 4:
        plane = plane.float()
    plane = interpolate(plane, size=(grid, grid), mode="bicubic", align_corners=False, antialias=antialias)
    patches = plane.permute(0, 2, 3, 1).reshape(1, grid * grid, -1)
    return cat([special, patches.to(positions.dtype)], dim=1)
