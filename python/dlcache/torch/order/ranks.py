# SPDX-License-Identifier: Apache-2.0
"""Ranks: all ranks of torch.distributed read the same snapshot of a dataset.

The rank that opens a URL first writes its snapshot to the store of the process group, and the
others open that one. No rank waits for another: a dataset that only some ranks open blocks none of
them, as a broadcast from rank 0 would.

(RANKS-1) The first open of a URL in each process has generation 0, and each later refresh=True
     begins the next one. All ranks open the same snapshot in one generation, or get ChangedError.
"""

from __future__ import annotations

import warnings
from typing import Any

import torch.distributed

import dlcache
from dlcache.torch.order.samplers import distributed

__all__ = ["open_agreed"]

_generations: dict[str, int] = {}  # of the URLs that were opened in this process group ...
_group: Any = None                 # ... which is this one


def _store() -> Any:
    """Of the process group; None: there is none, or only one rank."""
    if distributed()[1] == 1:
        return None
    try:
        return torch.distributed.distributed_c10d._get_default_store()
    except (AttributeError, RuntimeError, ValueError):
        return None  # of MPI


def _generation(url: str, refresh: bool) -> int:
    global _group
    if _group is not torch.distributed.group.WORLD:
        _group = torch.distributed.group.WORLD
        _generations.clear()
    known = _generations.get(url)
    _generations[url] = 0 if known is None else known + refresh
    return _generations[url]


def open_agreed(url: str, **options: Any) -> dlcache.Dataset:
    """dlcache.open(), at the snapshot that the other ranks have, unless one is named."""
    store = _store() if options.get("snapshot") is None else None
    if store is None:
        return dlcache.open(url, **options)
    refresh = bool(options.get("refresh"))
    key = f"dlcache/snapshot/{_generation(url, refresh)}/{url}"
    said = store.compare_set(key, "", "").decode()  # get() would wait for somebody to set it
    if not said:
        handle = dlcache.open(url, **options)
        said = store.compare_set(key, "", handle.snapshot).decode()
        if said == handle.snapshot:
            return handle
        handle.close()
        if refresh:
            warnings.warn(f"{url} was listed again as snapshot {handle.snapshot}, but another rank "
                          f"has opened snapshot {said} before: all ranks read that one. Refresh on "
                          "all ranks, or before the others open it", stacklevel=3)
    return dlcache.open(url, **dict(options, refresh=False, snapshot=said))
