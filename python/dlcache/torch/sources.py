# SPDX-License-Identifier: Apache-2.0
"""Where the items of a torch dataset come from: URLs, splits, and sample numbers.

source_of() looks through torch's Subset, so that loaders and samplers know which sample of which
dlcache.Dataset each index is.
"""
from __future__ import annotations

import array
import operator
import os
from typing import Optional, Sequence, Tuple, Union

import torch.utils.data

import dlcache
from dlcache.urls import join_urls

__all__ = ["position_of", "release_views", "source_of", "split_of", "url_of"]


def source_of(dataset) -> Optional[Tuple[dlcache.Dataset, Optional[Sequence[int]]]]:
    """As Dataset.source(), seen through torch's Subset; None for other datasets."""
    if isinstance(dataset, dlcache.Dataset):
        return dataset, None
    if isinstance(dataset, torch.utils.data.Subset):
        below = source_of(dataset.dataset)
        return below and (below[0], _subset(dataset, below[1]))
    return dataset.source() if callable(getattr(dataset, "source", None)) else None


def _subset(subset: torch.utils.data.Subset, numbers: Optional[Sequence[int]]) -> Sequence[int]:
    if numbers is None:
        numbers = range(len(subset.dataset))  # type: ignore[arg-type]
    return array.array("q", (numbers[operator.index(i)] for i in subset.indices))


def url_of(place: Union[str, os.PathLike, Sequence[Union[str, os.PathLike]]]) -> str:
    """A URL as it is; a path as file://; several of them as one URL."""
    if not isinstance(place, (str, bytes, os.PathLike)):
        return join_urls([url_of(one) for one in place])
    place = os.fspath(place)
    if not isinstance(place, str):
        raise TypeError("a dataset is named by a URL or a path, not by %s" % type(place).__name__)
    if "://" in place:
        return place
    path = os.path.abspath(os.path.expanduser(place))
    if not os.path.exists(path):
        raise FileNotFoundError("%s does not exist; a dataset is named by a path, or by a URL such "
                                "as s3://bucket/prefix/" % path)
    return "file://" + path + ("/" if os.path.isdir(path) and path != "/" else "")


def split_of(handle: dlcache.Dataset, split: Optional[str]) -> range:
    if split is None:
        return range(len(handle))
    name = {"val": "validation", "valid": "validation"}.get(split, split)
    if name not in handle.splits:
        raise ValueError("there is no split %r in %s; %s" % (
            split, handle.url, "there are " + ", ".join(handle.splits) if handle.splits else
            "it has none: splits are folders train, validation and test, or a manifest's column"))
    return handle.splits[name]


def position_of(index, length: int) -> int:
    """An index of any integer type, counted from the end when negative; IndexError outside."""
    place = operator.index(index)
    if place < -length or place >= length:
        raise IndexError("index %d is out of range for %d samples" % (place, length))
    return place + length if place < 0 else place


def release_views(*views: Optional[memoryview]) -> None:
    for view in views:
        try:
            if view is not None:
                view.release()
        except BufferError:
            pass  # a loader of the user has kept a part of it: it lives until that is gone
