"""One process or many: who does which share, and how results come together."""

from __future__ import annotations

import atexit
import os
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from cplsr.errors import InputError


@dataclass(frozen=True)
class Processes:
    """This process among those of a run started by torchrun or `accelerate launch`; alone by default."""

    rank: int = 0
    count: int = 1
    accelerator: Any = None

    @classmethod
    def find(cls, device: torch.device) -> Processes:
        """Join the other processes if a launcher started some, and make sure that all of them are there.

        Some launcher flags start one process, or several that do not know each other: the launcher's WORLD_SIZE is
        compared with what accelerate sees, because unconnected runs would overwrite each other's results.
        """
        wanted = int(os.environ.get("WORLD_SIZE", "1"))
        if wanted == 1:
            return cls()
        from accelerate import Accelerator

        accelerator = Accelerator(cpu=device.type == "cpu")
        if accelerator.num_processes != wanted:
            raise InputError(
                f"the launcher announced {wanted} processes, but {accelerator.num_processes} found each other: start "
                f"with torchrun --nproc_per_node {wanted} -m cplsr train … (on CPU with ACCELERATE_USE_CPU=true)"
            )
        atexit.register(accelerator.end_training)  # threads of the connection that outlive Python abort the process
        return cls(accelerator.process_index, accelerator.num_processes, accelerator)

    @property
    def first(self) -> bool:
        """Whether this is the one that writes files."""
        return self.rank == 0

    def wait(self) -> None:
        """Wait until all have come here."""
        if self.accelerator is not None:
            self.accelerator.wait_for_everyone()

    def average_(self, tensors: Sequence[Tensor]) -> None:
        """Replace tensors by their mean over all processes, in one exchange."""
        if self.accelerator is None:
            return
        flat = torch.cat([tensor.reshape(-1) for tensor in tensors])
        flat = self.accelerator.reduce(flat, reduction="mean")
        for tensor, part in zip(tensors, flat.split([tensor.numel() for tensor in tensors]), strict=True):
            tensor.copy_(part.view_as(tensor))

    def gather(self, item: Any) -> list[Any]:
        """Collect every process's item, in the order of their ranks, in every process."""
        if self.accelerator is None:
            return [item]
        from accelerate.utils import gather_object

        return list(gather_object([item]))

    def share(self, items: Sequence[Any]) -> list[Any]:
        """Take every `count`-th item, starting at this process's rank."""
        return list(items[self.rank :: self.count])

    def unshare(self, results: Sequence[Any]) -> list[Any]:
        """Put what every process made of its share in the order of all items, in every process."""
        parts = self.gather(list(results))
        return [parts[number % self.count][number // self.count] for number in range(sum(map(len, parts)))]
