# SPDX-License-Identifier: Apache-2.0
"""The curves of `dlcache sim` as a picture, a line for each policy:

    dlcache sim --json | python3 -m dlcache.torch.sim_plot policies.svg
"""
from __future__ import annotations

import json
import sys
from typing import Any, Mapping, Sequence

from dlcache.torch.format import size
from dlcache.torch.plot import curves

__all__ = ["svg"]


def svg(found: Mapping[str, Any]) -> str:
    """The text of an SVG file, from what `dlcache sim --json` printed."""
    by_policy = {name: p["measure_by_capacity"] for name, p in found["policies"].items()}
    return curves(found["title"], found["subtitle"], by_policy,
                  [(c, size(c)) for c in found["capacities"]], "capacity", found["measure"],
                  found["measure"].startswith("share"))


def main(arguments: Sequence[str]) -> int:
    if len(arguments) != 1:
        print("usage: dlcache sim --json | python3 -m dlcache.torch.sim_plot FILE.svg",
              file=sys.stderr)
        return 2
    try:
        text = svg(json.load(sys.stdin))
    except (KeyError, TypeError, ValueError) as e:
        print(f"sim_plot: standard input is not what `dlcache sim --json` prints ({e!r})",
              file=sys.stderr)
        return 1
    with open(arguments[0], "w", encoding="utf-8") as f:
        f.write(text)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
