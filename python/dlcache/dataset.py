# SPDX-License-Identifier: Apache-2.0
"""Dataset: the samples of one URL.

Views (what ds[i], read_many() and next() give) are memoryviews of shared memory, read-only. The bytes
stay where they are until the last memoryview, slice or numpy array over them is released or gone,
whatever happens to the dataset, the daemon or the bucket. Only so many can be held at a time (57,000
per process, or the daemon's memory); what is read beyond that is copied.

(HANDLE-1) A closed dataset refuses every call with ValueError; views that are still held live on.
(HANDLE-2) After fork the child attaches for itself when it first reads. Views that it inherits are valid
     only for as long as the parent holds them.
(HANDLE-3) Any method may be called by any thread. Calls that wait let other threads run; in the main thread
     Ctrl-C ends them, with nothing lost: what next() waited for comes again.
"""
from __future__ import annotations

import json
import operator
import re
from collections.abc import Iterator, Sequence
from types import TracebackType
from typing import Any, NamedTuple, Optional, SupportsIndex, Type, Union, overload

from . import _dlcache
from .errors import other_snapshot
from .order import SEED_MASK, natural
from .urls import join_urls

__all__ = ["Dataset", "Keys", "Stats", "open"]

_SEQUENTIAL, _SHUFFLED, _EXPLICIT = range(3)


class Stats(NamedTuple):
    """What this process has read through one dataset since it was opened."""

    hits: int  #: samples that were in memory when asked for
    misses: int  #: samples that had to be waited for
    bypasses: int  #: samples read straight from the bucket by this process
    bytes: int  #: bytes of all of them
    stall_s: float  #: seconds spent waiting
    reconnects: int  #: times the daemon was lost and found again
    without_daemon: int  #: of the bypasses: no daemon answered, or it was ending or hung


class Keys(Sequence[str]):
    """The keys of a dataset in the order of its samples, made when asked for."""

    def __init__(self, dataset: Dataset) -> None:
        self._dataset = dataset

    def __len__(self) -> int:
        return len(self._dataset)

    @overload
    def __getitem__(self, index: SupportsIndex) -> str: ...

    @overload
    def __getitem__(self, index: slice) -> list[str]: ...

    def __getitem__(self, index: Union[SupportsIndex, slice]) -> Union[str, list[str]]:
        if isinstance(index, slice):
            return [self._dataset.key(i) for i in range(*index.indices(len(self)))]
        return self._dataset.key(index)

    def __contains__(self, key: object) -> bool:
        try:
            self.index(key)
        except ValueError:
            return False
        return True

    def index(self, value: Any, start: int = 0, stop: Optional[int] = None) -> int:
        """Number of the sample with this key, as list.index() finds it; a binary search."""
        try:
            at = self._dataset.find(value) if isinstance(value, str) else -1
        except FileNotFoundError:
            at = -1
        if at not in range(len(self))[start:stop]:
            raise ValueError(f"{value!r} is not a key of {self._dataset.url}")
        return at

    def __repr__(self) -> str:
        return f"<{len(self)} keys of {self._dataset.url}>"


class Dataset(_dlcache.Handle):
    """The samples of one URL, numbered from 0; made by dlcache.open().

    len(ds), ds[i] (a view; negative i count from the end), ds[a:b] (a list of views) and iteration
    work as with a list of bytes. Pickling one and unpickling it elsewhere opens it there, at the same
    snapshot: its numbers mean the same samples, or ChangedError is raised.

    Attributes:
        url (str): As it was opened.
        options (dict): The other arguments of open().
        snapshot (str): Which list of the bucket this is. Sample numbers mean nothing without it: who
            saves or sends them does so with it, and opens with snapshot=.
    """

    def __init__(self, url: Union[str, Sequence[str]], *, socket: Optional[str] = None, endpoint: Optional[str] = None,
                 spawn: bool = True, anonymous: bool = False, timeout: float = 300.0,
                 refresh: bool = False, token: Optional[str] = None,
                 snapshot: Optional[str] = None) -> None:
        if not isinstance(url, str):
            url = join_urls(url)
        milliseconds = timeout * 1000
        if not 1 <= milliseconds < 2**32:
            raise ValueError(f"timeout is {timeout}; it must be at least 0.001 s and below 49 days")
        self.url = url
        self.options: dict[str, Any] = dict(socket=socket, endpoint=endpoint, spawn=spawn,
                                            anonymous=anonymous, timeout=timeout, refresh=refresh,
                                            token=token, snapshot=snapshot)
        self._cache: dict[str, Any] = {}
        self._open(url, socket, endpoint, int(not spawn), int(anonymous), int(milliseconds),
                   int(refresh), token, _snapshot_of(snapshot))
        self.snapshot = f"{self._snapshot():016x}"

    def again(self) -> dict[str, Any]:
        """The arguments of open() by which another process, or this one, opens the same samples under
        the same numbers."""
        return {**self.options, "refresh": False, "snapshot": self.snapshot}

    # ---- closing, pickling ----

    def close(self) -> None:
        """Give the dataset back. Views that are still held stay valid. May be called again."""
        self._close()

    def __enter__(self) -> Dataset:
        return self

    def __exit__(self, kind: Optional[Type[BaseException]], error: Optional[BaseException],
                 trace: Optional[TracebackType]) -> None:
        self.close()

    def __reduce__(self) -> Any:
        if self.closed:
            raise ValueError("the dataset is closed")
        return _reopened, (type(self), self.url, self.again())

    def __repr__(self) -> str:
        state = "closed" if self.closed else f"{len(self)} samples"
        return f"<dlcache.Dataset {self.url} ({state})>"

    # ---- samples ----

    def __iter__(self) -> Iterator[memoryview]:
        for i in range(len(self)):
            yield self[i]

    # ---- what is said of them ----

    @property
    def keys(self) -> Keys:
        """The key of each sample."""
        return Keys(self)

    def _cached(self, name: str, make: Any) -> Any:
        if self.closed:
            raise ValueError("the dataset is closed")
        if name not in self._cache:
            self._cache[name] = make()
        return self._cache[name]

    @property
    def location(self) -> str:
        """The URL where the samples lie; of ``dlcache://NAME`` the one that was registered."""
        return str(self._cached("location", self._location))

    @property
    def labels(self) -> Optional[memoryview]:
        """The class of each sample as int64, -1 for those without; None when no sample has one."""
        labels = self._cached("labels", self._labels)
        return None if labels is None else memoryview(labels).cast("q")

    @property
    def classes(self) -> list[str]:
        """Names of the classes, in the order of their numbers."""
        return list(self._cached("classes", self._classes))

    @property
    def class_to_idx(self) -> dict[str, int]:
        """Numbers of the classes by name."""
        return {name: k for k, name in enumerate(self.classes)}

    @property
    def splits(self) -> dict[str, range]:
        """Which samples are "train", "validation" and "test", where the dataset says so."""
        splits = self._cached("splits", self._splits)
        return {name: range(first, first + count) for name, first, count in splits}

    @property
    def columns(self) -> list[str]:
        """Names of the manifest's columns, for column()."""
        return list(self._cached("columns", self._columns))

    # ---- figures ----

    def stats(self) -> Stats:
        """What this process has read through this dataset."""
        return Stats(*self._stats())

    def daemon_stats(self) -> dict[str, Any]:
        """What the daemon knows of itself, as ``dlcache stat --json`` says it; the part about this
        dataset is under "dataset"."""
        answer: dict[str, Any] = json.loads(self._daemon_stats())
        return answer

    # ---- orders ----

    def follow(self, kind: Any = "shuffled", *, seed: SupportsIndex = 0, rank: SupportsIndex = 0,
               world: SupportsIndex = 1, drop_last: bool = False, relaxed: bool = False,
               epochs: SupportsIndex = 0, first: SupportsIndex = 0, count: SupportsIndex = 0,
               epoch: SupportsIndex = 0, position: SupportsIndex = 0,
               targets: bool = False, swaps: bytes = b"",
               snapshot: Optional[str] = None, window: SupportsIndex = 0) -> None:
        """Read in this order from now on, by next(); the daemon fetches ahead.

        Args:
            kind: "shuffled", "sequential", or the indices themselves (a sequence or an array):
                what this rank reads in one epoch.
            seed (int): Of the shuffle.
            rank, world (int): This process of so many; they take turns in one global order.
            drop_last (bool): Leave out what does not divide by `world`; else it is padded.
            relaxed (bool): A sample that is there may come before one that is not; each still comes
                once in every epoch.
            epochs (int): How many will be read in all; 0: no end.
            first, count (int): A range of samples, such as a split; count 0: to the last.
            epoch, position (int): Where to start, as tell() said.
            swaps (bytes): With relaxed: as state_dict() said; follow(..., **state) goes on there.
            snapshot (str): Of the dataset whose state or indices these are, as state_dict() said:
                ChangedError when this one has another.
            window (int): How many samples the daemon fetches ahead, within its memory, where you know
                better. 0: it measures.
            targets (bool): With indices: after each sample comes its target file (the sample itself
                again if it has none), and positions count both.
        """
        if snapshot is not None and snapshot != self.snapshot:
            raise other_snapshot("the state", self.url, snapshot, self.snapshot)
        code, numbers = _EXPLICIT, kind
        if isinstance(kind, str):
            if targets:
                raise ValueError("an order with targets must be a sequence of indices")
            if kind not in ("shuffled", "sequential"):
                raise ValueError(f'the order is {kind!r}; it must be "shuffled", "sequential" or a '
                                 "sequence of indices")
            code, numbers = _SHUFFLED if kind == "shuffled" else _SEQUENTIAL, None
        self._follow(code, numbers, natural("rank", rank, 2**32), natural("world", world, 2**32),
                     int(drop_last), int(relaxed), operator.index(seed) & SEED_MASK,
                     natural("epochs", epochs), natural("first", first), natural("count", count),
                     natural("epoch", epoch), natural("position", position), targets, swaps,
                     natural("window", window))

    def state_dict(self) -> dict[str, Any]:
        """Where next() stands, to go on there by follow(..., **state). In a strict order that is
        epoch and position; of a relaxed one also what was read early and what has changed places,
        so that each sample comes once in that epoch too."""
        epoch, position, swaps = self._state()
        return {"epoch": epoch, "position": position, "swaps": swaps, "snapshot": self.snapshot}

    def take(self, epoch: SupportsIndex, position: SupportsIndex, n: SupportsIndex) -> list[int]:
        """What is read at n positions of the order, for who has it read elsewhere and says how far
        that is by advance(). In a relaxed order this is decided now, and stays so. Fewer than n where
        the epoch ends."""
        return self._take(natural("epoch", epoch), natural("position", position), natural("n", n))

    def follow_more(self, indices: Any, /, *, targets: bool = False) -> None:
        """After follow() with indices: those of the epoch after the last one given. One epoch ahead
        at most: BusyError until the one being read has ended. targets: as with follow()."""
        self._follow_more(indices, targets)

    def advance(self, epoch: SupportsIndex, position: SupportsIndex, ahead: SupportsIndex = 0,
                waited_s: float = 0.0) -> None:
        """Say how far the order was read, when that is not done by next() but in other processes.

        Args:
            epoch, position (int): Everything before was consumed.
            ahead (int): So many samples from there on are in the hands of workers.
            waited_s (float): Seconds that workers have waited for samples since follow(); the mean
                over workers, only growing.
        """
        self._advance(natural("epoch", epoch), natural("position", position),
                      natural("ahead", ahead), natural("waited_s", int(waited_s * 1e9)))


def _reopened(cls: Type[Dataset], url: str, options: dict[str, Any]) -> Dataset:
    return cls(url, **options)


def _snapshot_of(text: Optional[str]) -> int:
    if text is None:
        return 0
    if not re.fullmatch("[0-9a-f]{16}", text) or int(text, 16) == 0:
        raise ValueError(f"snapshot={text!r}: it is named by 16 hexadecimal digits, as the attribute "
                         "`snapshot` of a dataset and `dlcache stat` show it")
    return int(text, 16)


def open(url: Union[str, Sequence[str]], *, socket: Optional[str] = None, endpoint: Optional[str] = None,
         spawn: bool = True, anonymous: bool = False, timeout: float = 300.0,
         refresh: bool = False, token: Optional[str] = None,
         snapshot: Optional[str] = None) -> Dataset:
    """Open the dataset at a URL, starting a daemon if none runs.

    The first open of a URL lists the bucket; later ones, in any process, find the list stored.

    Args:
        url (str): ``s3://``, ``gs://``, ``az://``, ``http://``, ``https://``, ``file://``
            or ``dlcache://NAME``, a dataset that a manager knows. A list of URLs: several places of
            one bucket as one dataset.
        socket (str): The daemon's socket. Default: as ``dlcache serve``.
        endpoint (str): S3, GCS or Azure endpoint. Default: the environment's, then the cloud's.
        spawn (bool): Start a daemon when none answers.
        anonymous (bool): Do not sign requests.
        timeout (float): Seconds that one sample may take.
        refresh (bool): List the bucket again, even if a list is stored.
        token (str): Who we are, for a cluster. Default: ``DLCACHE_TOKEN``, ``DLCACHE_TOKEN_FILE``.
        snapshot (str): The list of the bucket that sample numbers belong to, as the attribute of that
            name says in another process; ChangedError when it cannot be had. Default: the newest.
    """
    return Dataset(url, socket=socket, endpoint=endpoint, spawn=spawn, anonymous=anonymous,
                   timeout=timeout, refresh=refresh, token=token, snapshot=snapshot)
