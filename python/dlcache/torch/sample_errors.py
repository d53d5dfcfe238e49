# SPDX-License-Identifier: Apache-2.0
"""Errors of samples: which of them on_error may skip or replace, and how they are counted.

(SAMPLE-ERROR-1) Under on_error "skip" and "replace" only errors of a sample are tolerated. A bucket
     that fails, refuses or does not answer, a missing library and a lack of memory always raise.
"""
from __future__ import annotations

import collections
import os
from typing import Any, Dict, List, Mapping, Optional, Tuple

import dlcache
import dlcache.errors

__all__ = ["BadSample", "ErrorLog", "OF_THE_SAMPLE"]

OF_THE_SAMPLE = (dlcache.NotFoundError, dlcache.ChangedError, dlcache.CorruptError)
NEVER_TOLERATED = (ImportError, MemoryError)
BAD_KEPT = 1000          # entries of `bad`


class BadSample(Exception):
    """Inside the package: an item that could not be made."""

    def __init__(self, index: int, key: str, stage: str, cause: Exception):
        self.index, self.key, self.stage, self.cause = index, key, stage, cause
        self.reason = "%s failed: %s: %s" % (stage, type(cause).__name__, cause)

    def tolerable(self) -> bool:
        """(SAMPLE-ERROR-1)"""
        if isinstance(self.cause, dlcache.Error):
            return isinstance(self.cause, OF_THE_SAMPLE)
        return not isinstance(self.cause, NEVER_TOLERATED)

    def explained(self, more: str = "") -> Exception:
        """The cause again, of the same type where one text is enough to make it, saying where."""
        text = "sample %d (%s): %s%s" % (self.index, self.key, self.reason, more)
        if isinstance(self.cause, dlcache.Error):
            return dlcache.errors.of(self.cause.code, text)
        try:
            error = type(self.cause)(text)
        except Exception:
            return RuntimeError(text)
        same = self.reason in str(error) or isinstance(error, KeyError)
        return error if same and not isinstance(error, StopIteration) else RuntimeError(text)


class ErrorLog:
    """Tolerated errors: all of them, and those since the last take(). A forked child starts empty."""

    def __init__(self) -> None:
        self._begin()

    def _begin(self) -> None:
        self.pid = os.getpid()
        self.errors: collections.Counter = collections.Counter()
        self.bad: List[Tuple[int, str, str]] = []
        self.unreported: Optional[Dict[str, Any]] = None
        self.in_a_row = 0

    def _mine(self) -> None:
        if self.pid != os.getpid():
            self._begin()

    def add(self, bad: BadSample, how: str) -> None:
        self._mine()
        self.in_a_row += 1
        what = (bad.index, bad.key, bad.reason)
        self.merge({"stages": {bad.stage: 1}, "bad": [what]})
        if self.unreported is None:
            self.unreported = {"skipped": 0, "replaced": 0, "stages": collections.Counter(),
                               "bad": []}
        self.unreported[how] += 1
        self.unreported["stages"][bad.stage] += 1
        if len(self.unreported["bad"]) < BAD_KEPT:
            self.unreported["bad"].append(what)

    def place(self, places: List[Optional[int]]) -> None:
        """For a batch with errors: which of its indices each item has; None: a replacement."""
        if self.unreported is not None:
            self.unreported["places"] = places

    def merge(self, reported: Mapping[str, Any]) -> None:
        self._mine()
        self.errors.update(reported["stages"])
        self.bad.extend(reported["bad"][:max(0, BAD_KEPT - len(self.bad))])

    def take(self) -> Optional[Dict[str, Any]]:
        self._mine()
        reported, self.unreported = self.unreported, None
        return reported
