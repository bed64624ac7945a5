"""`cplsr info`: what this machine offers."""

from __future__ import annotations

import json
import os
from dataclasses import dataclass

from cplsr import environment
from cplsr.cli.options import parse
from cplsr.declared import Declared


@dataclass(frozen=True)
class Info(Declared):
    """Show device, number format, cache folders, whether downloads are allowed, and what is installed."""

    json: bool = False
    """Print it as json."""


def main(arguments: list[str]) -> int:
    """Parse the options and print."""
    options = parse(Info, "info", arguments)
    facts = gather()
    if options.json:
        print(json.dumps(facts, indent=2))
    else:
        width = max(map(len, facts))
        print("\n".join(f"{name:<{width}}  {value}" for name, value in facts.items()))
    return 0


def gather() -> dict[str, str]:
    """Gather the facts about this machine, in the order they are shown."""
    import torch
    from huggingface_hub.constants import HF_HUB_CACHE

    from cplsr.backbones.load import DEFAULT_BACKBONE, EMBEDDED_FILE

    device = environment.choose_device("auto")
    precision = environment.choose_precision("auto", device)
    extras = {
        extra: ", ".join(f"{name} {version}" for name in needed if (version := environment.installed_version(name)))
        if all(map(environment.installed_version, needed))
        else f"not installed (pip install 'cplsr[{extra}]')"
        for extra, needed in environment.EXTRAS.items()
    }
    return {
        **environment.versions(),
        "device": str(device),
        "threads": f"{torch.get_num_threads()} of {os.cpu_count()} cores",
        "precision": f"auto means {precision} here",
        "cache": str(environment.cache_folder()),
        "hub cache": str(HF_HUB_CACHE),
        "downloads": "off (HF_HUB_OFFLINE or TRANSFORMERS_OFFLINE is set)" if environment.is_offline() else "allowed",
        "default backbone": DEFAULT_BACKBONE,
        "embedded backbone": "present" if EMBEDDED_FILE.is_file() else "absent",
        **{f"extra {name}": state for name, state in extras.items()},
    }
