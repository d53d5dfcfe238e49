# SPDX-License-Identifier: Apache-2.0
"""Samples of a dataset in a cloud bucket, at the speed of memory.

    import dlcache

    with dlcache.open("s3://my-bucket/train/") as ds:
        view = ds[0]                          # a memoryview of shared memory: nothing is copied
        batch = ds.read_many([3, 1, 2])       # what is missing is fetched at the same time

Needs nothing but CPython 3.11 or later. For PyTorch there is dlcache.torch.
"""
from __future__ import annotations

from ._dlcache import version as __version__
from .dataset import Dataset, Keys, Stats, open
from .errors import (BucketError, BusyError, CancelledError, ChangedError, CorruptError, DeniedError,
                     Error, InvalidError, LocalError, NoDaemonError, NoMemoryError, NoSpaceError,
                     NotFoundError, ProtocolError, TimedOutError)
from .order import order_list

__all__ = ["Dataset", "Keys", "Stats", "open", "order_list", "__version__",
           "Error", "InvalidError", "NoMemoryError", "LocalError", "NotFoundError", "DeniedError",
           "ChangedError", "CorruptError", "BucketError", "TimedOutError", "NoDaemonError",
           "ProtocolError", "BusyError", "NoSpaceError", "CancelledError"]
