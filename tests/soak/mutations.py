"""Ways to damage a file: its bytes, or what it says while it can still be parsed. All are pure in (content, draw)."""

from __future__ import annotations

import json
import random
import struct
import zlib
from typing import Any

import torch
from torch import Tensor

ODD_NUMBERS = [
    *(
        "nan",
        "inf",
        "-inf",
        "-1",
        "0",
        "-0.0",
        "1e20",
        "-1e20",
        "1e400",
        "1e-320",
        "1e12",
        "0.5",
        "-7",
        "x",
        "",
        "None",
    ),
    *(str(2**31), str(2**63), str(2**64), str(10**30), str(-(2**63)), "1_0", "0x10", "١", "1,5", "9" * 5000),
]
_ODD_VALUES: list[Any] = [
    *(
        None,
        [],
        {},
        "",
        "x",
        -1,
        0,
        0.5,
        True,
        False,
        10**30,
        1e308,
        -(2**63),
        float("nan"),
        float("inf"),
        "\0",
        "\ud800",
    ),
    *([None], [[]], {"x": None}, [1, "a"], "../..", "/dev/null", "a" * 5000, [[1, 2], [3]], {"": ""}, "é\u202e"),
]


def damage_bytes(content: bytes, draw: random.Random) -> bytes:
    """Cut, flipped bits, emptied, doubled, holes, noise, other beginnings."""
    size = len(content)
    way = draw.randrange(9)
    data = bytearray(content)
    if way == 0:
        return content[: draw.randrange(size + 1)]
    if way in (1, 2):
        reach = size if way == 1 else min(size, 200)  # headers matter most
        for _ in range(draw.choice([1, 1, 3, 20])):
            if reach:
                data[draw.randrange(reach)] ^= 1 << draw.randrange(8)
        return bytes(data)
    if way == 3:
        return b""
    if way == 4:
        return content + content
    if way == 5:
        begin = draw.randrange(size + 1)
        return content[:begin] + bytes(draw.randrange(1, 200)) + content[begin:]
    if way == 6:
        return draw.randbytes(draw.choice([1, 8, 100, 5000]))
    if way == 7:
        begin, end = sorted((draw.randrange(size + 1), draw.randrange(size + 1)))
        return content[:begin] + content[end:]
    return draw.choice([b"\xff\xfe", b"\xef\xbb\xbf", b"PK\x03\x04", b"%!PS\n", b"\x80\x02", b"\xff" * 16]) + content


def odd_png(draw: random.Random) -> bytes:
    """A PNG in good order whose sides promise more pixels than it has, than memory has, or none."""
    sides = draw.choice(
        [(49_000_000, 1), (1, 49_000_000), (100_000, 100_000), (0, 5), (2**31 - 1, 2**31 - 1), (9000, 9000)]
    )
    header = struct.pack(">IIBBBBB", *sides, draw.choice([1, 8, 16]), draw.choice([0, 2, 3, 6]), 0, 0, 0)
    parts = ((b"IHDR", header), (b"PLTE", bytes(6)), (b"IDAT", zlib.compress(bytes(100_000))), (b"IEND", b""))
    chunks = [
        struct.pack(">I", len(body)) + name + body + struct.pack(">I", zlib.crc32(name + body)) for name, body in parts
    ]
    return b"\x89PNG\r\n\x1a\n" + b"".join(chunks)


def damage_json(text: str, draw: random.Random) -> bytes:
    """Mostly valid JSON in which one value or a few are of another kind, missing, or added; sometimes only bytes."""
    if draw.random() < 0.15:
        return damage_bytes(text.encode(), draw)
    if draw.random() < 0.05:
        return draw.choice([b"[" * 100_000, b"null", b"[]", b'"x"', b"{}", b"NaN", b"1" * 10_000, b'{"a":' * 5000])
    content = json.loads(text)
    for _ in range(draw.choice([1, 1, 1, 2, 5])):
        content = _with_damage(content, draw)
    return json.dumps(content, ensure_ascii=True).encode()


def _with_damage(content: Any, draw: random.Random) -> Any:
    """A copy with one place replaced; shallow places are as likely as the many deep ones."""
    if isinstance(content, (dict, list)) and content and draw.random() < 0.85:
        copy: Any = dict(content) if isinstance(content, dict) else list(content)
        key = draw.choice(list(content)) if isinstance(content, dict) else draw.randrange(len(content))
        if draw.random() < 0.1:
            del copy[key]
        elif draw.random() < 0.05 and isinstance(copy, dict):
            copy["unknown"] = copy.pop(key)
        else:
            copy[key] = _with_damage(copy[key], draw)
        return copy
    if isinstance(content, int | float) and draw.random() < 0.5:
        return draw.choice([-content, content + 1, content * 1000, str(content), [content], float("nan")])
    return draw.choice(_ODD_VALUES)


def damage_tensors(tensors: dict[str, Tensor], draw: random.Random) -> dict[str, Tensor]:
    """One tensor or a few missing, renamed, of another shape or type, or without sense."""
    changed = {name: tensor.clone() for name, tensor in tensors.items()}
    for _ in range(draw.choice([1, 1, 2, 6])):
        if not changed:
            break
        name = draw.choice(sorted(changed))
        tensor = changed.pop(name)
        way = draw.randrange(9)
        if way == 0:
            continue
        if way == 1:
            name = draw.choice(["x", f"module.{name}", name.replace(".0.", ".7."), name[::-1], ""])
        elif way == 2:
            tensor = tensor.flatten()[: draw.randrange(tensor.numel() + 1)]
        elif way == 3 and tensor.ndim:
            tensor = tensor.narrow(0, 0, draw.randrange(tensor.shape[0] + 1))
        elif way == 4:
            tensor = tensor.to(draw.choice([torch.float16, torch.bfloat16, torch.int64, torch.uint8, torch.float64]))
        elif way == 5:
            tensor = torch.full(tensor.shape, draw.choice([float("nan"), float("inf"), 1e38, 0.0]))
        elif way == 6:
            tensor = tensor.unsqueeze(0)
        elif way == 7:
            tensor = torch.cat([tensor, tensor]) if tensor.ndim else tensor.repeat(3)
        else:
            tensor = tensor.transpose(0, -1) if tensor.ndim else tensor
        changed[name] = tensor.contiguous()
    return changed


def damage_toml(text: str, draw: random.Random) -> bytes:
    """One line or a few with another value, another name, doubled or missing; sometimes only bytes."""
    if draw.random() < 0.2:
        return damage_bytes(text.encode(), draw)
    lines = text.splitlines()
    for _ in range(draw.choice([1, 1, 2])):
        at = draw.randrange(len(lines))
        name, equals, value = lines[at].partition(" = ")
        odd = [
            *ODD_NUMBERS,
            "true",
            '"x"',
            "[]",
            "{}",
            "[1, 2]",
            "[[]]",
            "{a = 1}",
            "1979-05-27",
            '"""',
            "[",
            '"a\\u0000"',
        ]
        new = (
            f"{name} = {draw.choice(odd)}"
            if equals
            else draw.choice(["[rows]", '[rows.""]', "[x.y]", "[[rows]]", "=", "]"])
        )
        more = draw.choice([f"{name}x = {value}", f"{name.upper()} = {value}", lines[at], "unknown = 1", "[settings]"])
        lines[at : at + 1] = draw.choice([[new], [new], [new], [lines[at], more], [more], []])
        if not lines:
            break
    return "\n".join(lines).encode()


def damage_csv(text: str, draw: random.Random) -> bytes:
    """Cells and lines of other kinds, other separators, other encodings; sometimes only bytes."""
    if draw.random() < 0.15:
        return damage_bytes(text.encode(), draw)
    lines = text.splitlines()
    odd = [
        "",
        " ",
        '"',
        '""',
        "=1+1",
        "\0",
        "../../etc",
        "/dev/null",
        "a" * 3000,
        "é",
        "\t",
        "x,y",
        "'",
        "-1",
        "nan",
        ".",
    ]
    for _ in range(draw.choice([1, 2, 10])):
        at = draw.choice([0, draw.randrange(len(lines))])
        cells = lines[at].split(",")
        cells[draw.randrange(len(cells))] = draw.choice(odd)
        lines[at] = draw.choice(
            [",".join(cells), ",".join(cells), lines[at].replace(",", ";"), "", lines[at] + ",more"]
        )
    joined = draw.choice(["\n", "\n", "\r\n", "\r"]).join(lines)
    return joined.encode(draw.choice(["utf-8", "utf-8", "utf-16", "latin-1"]), "replace")
