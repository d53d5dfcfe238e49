# SPDX-License-Identifier: Apache-2.0
"""Several places of one bucket as one URL.

    join_urls(["s3://b/cats/", "s3://b/more/cats/"])  ->  "s3://b/?samples=cats/&samples=more/cats/"

The daemon makes one catalog of them (docs/datasets.md, Several places), so orders, prefetching,
importance and saved states know them as one dataset.
"""
from __future__ import annotations

import re
from typing import Iterable, Tuple

__all__ = ["join_urls"]

_OPTIONS = re.compile(r"\?([A-Za-z][\w-]*=[^&?]*(?:&[A-Za-z][\w-]*=[^&?]*)*)$")


def join_urls(urls: Iterable[str]) -> str:
    """One URL for these places, in this order. ValueError if they are not in one bucket."""
    parts = [_split(url) for url in urls]
    if not parts:
        raise ValueError("a dataset of several places needs one URL at least")
    if len(parts) == 1:
        scheme, bucket, prefix, options = parts[0]
        return f"{scheme}://{bucket}/{prefix}" + (f"?{options}" if options else "")
    for scheme, bucket, _, options in parts[1:]:
        if (scheme, bucket) != parts[0][:2]:
            raise ValueError("%s://%s and %s://%s are different buckets: one dataset lies in one; for "
                             "several use torch.utils.data.ConcatDataset" % (*parts[0][:2], scheme, bucket))
        if options != parts[0][3]:
            raise ValueError("the options %r and %r of the URLs differ: give all the same"
                             % (parts[0][3], options))
    prefixes = [prefix if not prefix or prefix.endswith(("/", "*")) else prefix + "/"
                for _, _, prefix, _ in parts]
    folder = _common_folder(prefixes)
    for prefix in prefixes:
        if prefix == folder:
            raise ValueError("%s://%s/%s contains the other places" % (*parts[0][:2], prefix))
    chosen = ["samples=" + prefix[len(folder):] for prefix in prefixes]
    if parts[0][3]:
        chosen.insert(0, parts[0][3])
    return "%s://%s/%s?%s" % (*parts[0][:2], folder, "&".join(chosen))


def _split(url: str) -> Tuple[str, str, str, str]:
    """(scheme, bucket, prefix, options)"""
    scheme, mark, rest = url.partition("://")
    if not mark or scheme not in ("s3", "gs", "file"):
        raise ValueError(f"{url!r}: a dataset of several places is made of s3://, gs:// or file:// URLs")
    found = _OPTIONS.search(rest)
    options = found[1] if found else ""
    bucket, _, prefix = (rest[:found.start()] if found else rest).partition("/")
    if "&" in prefix or "?" in prefix:
        raise ValueError(f"{url!r}: a prefix of several may not have '&' or '?' in it")
    return scheme, bucket, prefix, options


def _common_folder(prefixes: list[str]) -> str:
    first, last = min(prefixes), max(prefixes)
    n = 0
    while n < len(first) and n < len(last) and first[n] == last[n]:
        n += 1
    return first[:first.rfind("/", 0, n) + 1]
