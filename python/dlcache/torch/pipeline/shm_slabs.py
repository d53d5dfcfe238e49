# SPDX-License-Identifier: Apache-2.0
"""Slab allocator: shared memory for batches, allocated once and reused.

    slab    memfd of max(chunk, SLAB) bytes, cut into equal chunks whose sizes are powers of two.
            Pages that were never written do not exist, so rounding up costs addresses, not memory
    chunk   holds one buffer, so that a tensor kept for long keeps its own bytes and no others

The worker owns the slabs, in a SlabAllocator; the parent maps them too and lends chunks to its
tensors.

    free --take--> open --sent--> lent --returned by the parent--> free
                   open --last view gone, never sent--> free

(SLAB-1) A chunk becomes free only after every view of it is gone, in the parent and in the worker.
     Views hang on the ctypes array that lend() makes; a Lease, its weak reference, reports their
     end, from any thread, by an append to a deque and nothing else.
(SLAB-2) A mapping lives as long as its Slab or a view of it, whichever is later.
(SLAB-3) No descriptor is kept: a user may hold thousands of batches.
(SLAB-4) A slab that was not used for IDLE batches is dropped.
"""
from __future__ import annotations

import ctypes
import functools
import mmap
import os
import pickle
import weakref
from collections import deque
from typing import Any, Callable, Dict, List, Optional, Tuple

__all__ = ["Key", "Lease", "SMALL", "Slab", "SlabAllocator", "forks", "make_slab", "raw"]

SMALL = 1 << 14  # the smallest chunk; smaller buffers are not worth one
SLAB = 1 << 22  # smaller chunks share a slab of so many bytes
IDLE = 64

Key = Tuple[int, int]  # number of the slab, number of the chunk in it

_libc = ctypes.CDLL(None, use_errno=True)
_mmap = _libc.mmap
_mmap.restype = ctypes.c_void_p
_mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int, ctypes.c_int, ctypes.c_int,
                  ctypes.c_long]
_munmap = _libc.munmap
_munmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t]
_MAP_FAILED = ctypes.c_void_p(-1).value

_forks = 0


def forks() -> int:
    """How often this process has forked."""
    return _forks


def _count_fork() -> None:
    global _forks
    _forks += 1


os.register_at_fork(before=_count_fork)


def _map(fd: int, size: int) -> int:
    """Not mmap.mmap, which would keep a descriptor (SLAB-3)."""
    address = _mmap(None, size, mmap.PROT_READ | mmap.PROT_WRITE, mmap.MAP_SHARED, fd, 0)
    if address == _MAP_FAILED:
        code = ctypes.get_errno()
        raise OSError(code, f"cannot map {size} bytes of shared memory: {os.strerror(code)}")
    return address


@functools.lru_cache(maxsize=None)
def _chunk_type(size: int) -> Any:
    """A buffer of `size` bytes that can be weakly referenced; `slab` keeps the mapping alive."""
    return type("Chunk", (ctypes.Array,), {
        "_type_": ctypes.c_ubyte, "_length_": size, "__slots__": ("slab", "number", "__weakref__")})


class Lease(weakref.ref):
    """Tells when the last view of a chunk has gone."""
    __slots__ = ("key", "address", "forks")
    key: Tuple[int, int]  # slab and number of the chunk
    address: int
    forks: int


def raw(chunk: Any) -> memoryview:
    """The bytes of a chunk, writable; slices of it hold the chunk."""
    return pickle.PickleBuffer(chunk).raw()


class Slab:
    """A mapped memfd; the descriptor stays the caller's."""

    def __init__(self, ident: int, fd: int, size: int, chunk: int) -> None:
        self.ident, self.size, self.chunk = ident, size, chunk
        self.used = 0  # chunks that are not free; counted in the worker only
        self.last = 0  # batch that took a chunk last
        self.address = _map(fd, size)
        weakref.finalize(self, _munmap, self.address, size).atexit = False

    def lend(self, number: int) -> Any:
        """The chunk as an object with the buffer protocol."""
        chunk = _chunk_type(self.chunk).from_address(self.address + number * self.chunk)
        chunk.slab, chunk.number = self, number
        return chunk


def make_slab(ident: int, size: int, chunk: int, announce: Callable[[Slab, int], None]) -> Slab:
    """Makes a slab; announce(slab, fd) sends it to the parent."""
    fd = os.memfd_create("dlcache-batch", os.MFD_CLOEXEC)
    try:
        os.ftruncate(fd, size)
        slab = Slab(ident, fd, size, chunk)
        announce(slab, fd)
    finally:
        os.close(fd)
    return slab


class SlabAllocator:
    """The worker's slabs, numbered from 1. Each new one is announced."""

    def __init__(self, announce: Callable[[Slab, int], None]) -> None:
        self._announce = announce
        self._slabs: Dict[int, Slab] = {}
        self._free: Dict[int, List[Tuple[Slab, int]]] = {}  # by size of chunk; last in, first out
        self._holds: Dict[Key, int] = {}  # 1 for views here, 1 for the parent
        self._leases: Dict[Key, Lease] = {}
        self._gone: deque = deque()  # leases whose views have gone
        self._open: Dict[int, Key] = {}  # address of a chunk not sent yet
        self._dropped: List[int] = []
        self._next = 1
        self._batch = 0

    def __len__(self) -> int:
        return len(self._slabs)

    def take(self, nbytes: int) -> Optional[Any]:
        """A chunk of at least nbytes, or None where the system gives no more."""
        self._collect()
        size = max(SMALL, 1 << (nbytes - 1).bit_length())
        free = self._free.setdefault(size, [])
        if not free:
            try:
                slab = make_slab(self._next, max(size, SLAB), size, self._announce)
                self._next += 1
            except (BrokenPipeError, ConnectionResetError):
                raise
            except OSError:
                return None
            self._slabs[slab.ident] = slab
            free.extend((slab, n) for n in reversed(range(slab.size // size)))
        slab, number = free.pop()
        slab.used += 1
        slab.last = self._batch
        return self._lease(slab, number)

    def _lease(self, slab: Slab, number: int) -> Any:
        chunk = slab.lend(number)
        lease = Lease(chunk, self._gone.append)
        lease.key, lease.address = (slab.ident, number), ctypes.addressof(chunk)
        self._leases[lease.key] = lease
        self._holds[lease.key] = 1
        self._open[lease.address] = lease.key
        return chunk

    def opened(self, address: int) -> Optional[Any]:
        """The chunk at this address, if it was taken and not sent."""
        key = self._open.get(address)
        return self._leases[key]() if key is not None else None

    def sent(self, chunk: Any) -> None:
        self._holds[(chunk.slab.ident, chunk.number)] += 1
        del self._open[ctypes.addressof(chunk)]

    def put(self, key: Key) -> None:
        """One of the two holders of a chunk has let it go."""
        slab = self._slabs.get(key[0])
        if slab is None:
            self._holds.pop(key, None)
            return
        self._holds[key] -= 1
        if self._holds[key] == 0:
            del self._holds[key]
            slab.used -= 1
            self._free[slab.chunk].append((slab, key[1]))

    def _collect(self) -> None:
        while self._gone:
            lease = self._gone.popleft()
            del self._leases[lease.key]
            self._open.pop(lease.address, None)
            self.put(lease.key)

    def drop(self, ident: int) -> None:
        """Uses a slab no more. What is still seen of it stays mapped."""
        slab = self._slabs.pop(ident, None)
        if slab is not None:
            self._free[slab.chunk] = [f for f in self._free[slab.chunk] if f[0] is not slab]
            self._dropped.append(ident)

    def next_batch(self) -> List[int]:
        """Counts a batch; returns the slabs dropped since the last one."""
        self._batch += 1
        if self._batch % IDLE == 0:
            self._collect()
            for slab in list(self._slabs.values()):
                if slab.used == 0 and self._batch - slab.last >= IDLE:
                    self.drop(slab.ident)
        dropped, self._dropped = self._dropped, []
        return dropped
