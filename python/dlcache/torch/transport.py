# SPDX-License-Identifier: Apache-2.0
"""Batches through reused shared memory, over one unix socket between a worker and its leader.

The worker has the Far end, the leader the Near end. A batch is a pickle (protocol 5). Buffers of at
least SMALL bytes (dense CPU tensors, numpy arrays, whatever gives pickle a PickleBuffer) do not go
into it but into chunks of slabs: memfds that the worker makes, sends once, and both sides map once.

    slab    memfd of max(chunk, SLAB) bytes, cut into equal chunks; chunk sizes are powers of two, and
            pages that were never written do not exist, so the rounding costs addresses, not memory
    chunk   holds one buffer, so that a tensor kept for long keeps its own bytes and no others

    free --take--> open --sent--> lent --last view gone in the leader, told with its next send--> free
                   open --last view gone in the worker, never sent--> free

(T1) A chunk is written again only after every view of it has gone, in the leader and in the worker.
     Views hang on the ctypes array that lend() makes; its weak reference tells their end, in any
     thread, by nothing but an append to a deque.
(T2) After a fork of the leader the child may still see what was lent: such slabs are never used again.
(T3) A mapping lives as long as its Slab or a view of it, whichever is later: also after close().
(T4) Near never blocks: what the socket does not take waits in it; Far may block, the leader reads on.
(T5) Where no memfd or mapping can be had in the worker, buffers travel inside the pickle.
"""
from __future__ import annotations

import copyreg
import ctypes
import errno
import functools
import io
import mmap
import os
import pickle
import socket
import struct
import weakref
from array import array
from collections import deque
from typing import Any, Dict, List, NamedTuple, Optional, Tuple

import torch

__all__ = ["Far", "Near", "Packed", "Parcel"]

SMALL = 1 << 14  # smaller buffers stay in the pickle
SLAB = 1 << 22  # smaller chunks share a slab of so many bytes
IDLE = 64  # a slab unused for so many batches is dropped
CELLS = 4  # int64 cells that the worker writes and the leader may read at any time

_READ = 1 << 16
_FRAME = struct.Struct("<IIQ")  # worker to leader: kind, bytes of meta, bytes of body
_LENGTH = struct.Struct("<Q")  # leader to worker
_SLAB = struct.Struct("<QQQ")  # number of the slab, its size, size of its chunks
_KIND_SLAB, _KIND_MESSAGE = 1, 2
_CELL_SLAB = 0

_libc = ctypes.CDLL(None, use_errno=True)
_mmap = _libc.mmap
_mmap.restype = ctypes.c_void_p
_mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int, ctypes.c_int, ctypes.c_int,
                  ctypes.c_long]
_munmap = _libc.munmap
_munmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t]
_MAP_FAILED = ctypes.c_void_p(-1).value

_forks = 0  # forks of this process so far


def _count_fork() -> None:
    global _forks
    _forks += 1


os.register_at_fork(before=_count_fork)


def _map(fd: int, size: int) -> int:
    """Maps without keeping the descriptor, as mmap.mmap would: a user may hold thousands of batches."""
    address = _mmap(None, size, mmap.PROT_READ | mmap.PROT_WRITE, mmap.MAP_SHARED, fd, 0)
    if address == _MAP_FAILED:
        code = ctypes.get_errno()
        raise OSError(code, f"cannot map {size} bytes of shared memory: {os.strerror(code)}")
    return address


@functools.lru_cache(maxsize=None)
def _chunk_type(size: int) -> type:
    """A buffer of `size` bytes that can be weakly referenced; `slab` keeps the mapping alive."""
    return type("Chunk", (ctypes.Array,), {
        "_type_": ctypes.c_ubyte, "_length_": size, "__slots__": ("slab", "number", "__weakref__")})


class _Lease(weakref.ref):
    """Tells when the last view of a chunk has gone."""
    __slots__ = ("key", "address", "forks")


def _raw(chunk: Any) -> memoryview:
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


class Heap:
    """The worker's slabs. `announce(slab, fd)` is called once for each new one."""

    def __init__(self, announce) -> None:
        self._announce = announce
        self._slabs: Dict[int, Slab] = {}
        self._free: Dict[int, List[Tuple[Slab, int]]] = {}  # by size of chunk; last in, first out
        self._holds: Dict[Tuple[int, int], int] = {}  # 1 for views here, 1 for the leader
        self._leases: Dict[Tuple[int, int], _Lease] = {}
        self._gone: deque = deque()  # leases whose views have gone
        self._open: Dict[int, Tuple[int, int]] = {}  # address of a chunk not sent yet
        self._dropped: List[int] = []
        self._next = _CELL_SLAB
        self._batch = 0

    def __len__(self) -> int:
        return len(self._slabs)

    def new_slab(self, size: int, chunk: int) -> Slab:
        """Makes and announces a slab whose chunks are not (yet) free."""
        fd = os.memfd_create("dlcache-batch", os.MFD_CLOEXEC)
        try:
            os.ftruncate(fd, size)
            slab = Slab(self._next, fd, size, chunk)
            self._next += 1
            self._announce(slab, fd)
        finally:
            os.close(fd)
        return slab

    def take(self, nbytes: int) -> Optional[Any]:
        """A chunk of at least nbytes, or None where the system gives no more."""
        self._collect()
        size = max(SMALL, 1 << (nbytes - 1).bit_length())
        free = self._free.setdefault(size, [])
        if not free:
            try:
                slab = self.new_slab(max(size, SLAB), size)
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
        lease = _Lease(chunk, self._gone.append)
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

    def put(self, key: Tuple[int, int]) -> None:
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


def _is_plain(t: torch.Tensor) -> bool:
    return (t.layout is torch.strided and t.device.type == "cpu" and not t.is_quantized
            and not t.__dict__ and not getattr(t, "is_nested", False))


def _dense(t: torch.Tensor) -> Tuple[torch.Tensor, Optional[tuple]]:
    """(the tensor whose bytes lie in order, strides to go back to t) ; None: t's own order."""
    if t.is_contiguous():
        return t, None
    order = sorted(range(t.dim()), key=t.stride, reverse=True)
    inner = t.permute(order)
    return (inner, t.stride()) if inner.is_contiguous() else (t, None)


def tensor(buffer, dtype: torch.dtype, size: tuple, stride: Optional[tuple], grad: bool):
    """Named in pickles: the tensor over a writable buffer."""
    t = torch.frombuffer(buffer, dtype=dtype)
    t = t.view(size) if stride is None else t.as_strided(size, stride)
    return t.requires_grad_() if grad else t


def empty(dtype: torch.dtype, size: tuple, grad: bool):
    """Named in pickles: a tensor without elements."""
    return torch.empty(size, dtype=dtype, requires_grad=grad)


class Packed(NamedTuple):
    """A batch ready to be sent: its pickle, and (slab, chunk, bytes) of each buffer outside of it."""
    body: bytes
    table: List[Tuple[int, int, int]]


class Far:
    """The worker's end."""

    def __init__(self, sock: socket.socket) -> None:
        self._sock = sock
        self._in = bytearray()
        self._heap = Heap(self._announce)
        self._table: List[Tuple[int, int, int]] = []
        self._placed = None  # the chunk that the buffer pickled next lies in already
        self.cells = self._make_cells()

    def _make_cells(self):
        try:
            page = mmap.PAGESIZE
            return _raw(self._heap.new_slab(page, page).lend(0)).cast("q")[:CELLS]
        except (BrokenPipeError, ConnectionResetError):
            raise
        except OSError:
            return array("q", [0] * CELLS)

    def _announce(self, slab: Slab, fd: int) -> None:
        frame = _FRAME.pack(_KIND_SLAB, _SLAB.size, 0) + _SLAB.pack(slab.ident, slab.size, slab.chunk)
        sent = socket.send_fds(self._sock, [frame], [fd])
        self._sock.sendall(frame[sent:])

    def empty(self, size: tuple, dtype: torch.dtype, nbytes: int) -> Optional[torch.Tensor]:
        """A tensor in shared memory, which pack() will not copy; None if it would not be worth it."""
        chunk = self._heap.take(nbytes) if nbytes >= SMALL else None
        if chunk is None:
            return None
        return torch.frombuffer(_raw(chunk)[:nbytes], dtype=dtype).view(size)

    def pack(self, batch: Any) -> Packed:
        """Pickles; raises what pickling raises, and then nothing was lent."""
        file = io.BytesIO()
        table = self._table = []
        self._placed = None
        pickler = pickle.Pickler(file, 5, buffer_callback=self._out_of_band)
        pickler.dispatch_table = {**copyreg.dispatch_table, torch.Tensor: self._reduce}
        try:
            pickler.dump(batch)
        except BaseException:
            for slab, number, _ in table:
                self._heap.put((slab, number))
            raise
        return Packed(file.getvalue(), table)

    def _reduce(self, t: torch.Tensor):
        if not _is_plain(t):
            return t.__reduce_ex__(5)
        grad = t.requires_grad
        if grad and not t.is_leaf:
            raise RuntimeError("a batch holds a tensor that requires grad and is not a leaf: its graph "
                               "cannot leave the worker; return tensor.detach()")
        t = t.detach().resolve_conj().resolve_neg()
        size, nbytes = tuple(t.shape), t.numel() * t.element_size()
        if nbytes == 0:
            return empty, (t.dtype, size, grad)
        inner, stride = _dense(t)
        buffer = self._place(inner, nbytes) if nbytes >= SMALL else None
        if buffer is None:
            inner = inner.contiguous()
            buffer = bytearray(ctypes.string_at(inner.data_ptr(), nbytes))
        return tensor, (buffer, t.dtype, size, stride, grad)

    def _place(self, t: torch.Tensor, nbytes: int) -> Optional[pickle.PickleBuffer]:
        """Puts the elements into a chunk, where they are not in one."""
        chunk = self._heap.opened(t.data_ptr()) if t.is_contiguous() else None
        if chunk is None:
            chunk = self._heap.take(nbytes)
            if chunk is None:
                return None
            torch.frombuffer(_raw(chunk)[:nbytes], dtype=t.dtype).view(t.shape).copy_(t)
        self._placed = chunk
        return pickle.PickleBuffer(_raw(chunk)[:nbytes])

    def _out_of_band(self, buffer: pickle.PickleBuffer) -> bool:
        """True: keep it in the pickle."""
        raw = buffer.raw()
        chunk, self._placed = self._placed, None
        if chunk is None:
            chunk = self._heap.take(raw.nbytes) if raw.nbytes >= SMALL else None
            if chunk is None:
                return True
            _raw(chunk)[:raw.nbytes] = raw
        self._heap.sent(chunk)
        self._table.append((chunk.slab.ident, chunk.number, raw.nbytes))
        return False

    def send(self, head: Any, packed: Optional[Packed] = None) -> None:
        """Sends a message: anything small, and perhaps a batch. Blocks while the leader is behind."""
        body, table = packed if packed is not None else (b"", [])
        meta = pickle.dumps((head, table, self._heap.next_batch()), 5)
        frame = _FRAME.pack(_KIND_MESSAGE, len(meta), len(body)) + meta
        if len(body) <= _READ:
            self._sock.sendall(frame + body)
        else:
            self._sock.sendall(frame)
            self._sock.sendall(body)

    def receive(self, wait: bool) -> Optional[tuple]:
        """The next message of the leader as a tuple of one; None if there is none and wait is false.

        Raises EOFError when the leader has gone.
        """
        while True:
            message = self._parse()
            if message is not None:
                return message
            try:
                data = self._sock.recv(_READ, 0 if wait else socket.MSG_DONTWAIT)
            except BlockingIOError:
                return None
            except ConnectionResetError:
                data = b""
            if not data:
                raise EOFError("the leader has closed its end")
            self._in += data

    def _parse(self) -> Optional[tuple]:
        if len(self._in) < _LENGTH.size:
            return None
        end = _LENGTH.size + _LENGTH.unpack_from(self._in)[0]
        if len(self._in) < end:
            return None
        returned, spoilt, message = pickle.loads(memoryview(self._in)[_LENGTH.size:end])
        del self._in[:end]
        for ident in spoilt:
            self._heap.drop(ident)
        for key in returned:
            self._heap.put(key)
        return (message,)


class Parcel:
    """A batch that has arrived; exactly one of open() and discard() is to be called."""
    __slots__ = ("_near", "_body", "_table")

    def __init__(self, near: "Near", body: bytes, table: list) -> None:
        self._near, self._body, self._table = near, body, table

    def open(self) -> Any:
        """The batch. Its tensors are views of the worker's slabs until they go."""
        return pickle.loads(self._body, buffers=[self._near._lend(*row) for row in self._table])

    def discard(self) -> None:
        self._near._returned.extend((slab.ident, number) for slab, number, _ in self._table)


class Near:
    """The leader's end. Never blocks."""

    def __init__(self, sock: socket.socket) -> None:
        self._sock = sock
        self._in = bytearray()
        self._fds: deque = deque()
        self._out = bytearray()
        self._slabs: Dict[int, Slab] = {}
        self._spoilt: set = set()
        self._leases: Dict[Tuple[int, int], _Lease] = {}
        self._gone: deque = deque()
        self._returned: List[Tuple[int, int]] = []
        self.cells: Optional[memoryview] = None  # what the worker writes; None until it was heard of
        self.ended = False  # the worker has gone; all it had sent was received

    @property
    def pending(self) -> bool:
        """Something waits for the socket to take more: call flush() when it is writable."""
        return bool(self._out)

    @property
    def slabs(self) -> int:
        return len(self._slabs)

    def fileno(self) -> int:
        return self._sock.fileno()

    def _lend(self, slab: Slab, number: int, nbytes: int) -> memoryview:
        chunk = slab.lend(number)
        lease = _Lease(chunk, self._gone.append)
        lease.key, lease.forks = (slab.ident, number), _forks
        self._leases[lease.key] = lease
        return _raw(chunk)[:nbytes]

    def _collect(self) -> Tuple[list, list]:
        """(chunks to give back, slabs to give up) since the last call."""
        returned, self._returned = self._returned, []
        spoilt = []
        while self._gone:
            lease = self._gone.popleft()
            del self._leases[lease.key]
            ident = lease.key[0]
            if ident in self._spoilt or ident not in self._slabs:
                continue
            if lease.forks == _forks:
                returned.append(lease.key)
            else:
                self._spoilt.add(ident)
                spoilt.append(ident)
        return returned, spoilt

    def send(self, message: Any) -> None:
        """Sends a message, with the chunks that can be used again."""
        data = pickle.dumps((*self._collect(), message), 5)
        self._out += _LENGTH.pack(len(data))
        self._out += data
        self.flush()

    def flush(self) -> None:
        try:
            sent = self._sock.send(self._out, socket.MSG_DONTWAIT | socket.MSG_NOSIGNAL)
            del self._out[:sent]
        except BlockingIOError:
            pass
        except (BrokenPipeError, ConnectionResetError):
            self._out.clear()  # reading tells the end

    def receive(self) -> List[Tuple[Any, Optional[Parcel]]]:
        """What has arrived: (head, batch or None), one by one. Sets `ended` at the end of file."""
        try:
            data, ancillary, flags, _ = self._sock.recvmsg(
                _READ, socket.CMSG_SPACE(64), socket.MSG_DONTWAIT | socket.MSG_CMSG_CLOEXEC)
        except BlockingIOError:
            return []
        except ConnectionResetError:
            data, ancillary, flags = b"", [], 0
        for _, _, raw in ancillary:
            self._fds.extend(array("i", raw[:len(raw) // 4 * 4]))
        if flags & socket.MSG_CTRUNC:
            raise OSError(errno.EMFILE, "cannot take the shared memory of a worker: too many open files; "
                          "raise the limit (ulimit -n) or use fewer workers")
        self.ended = not data
        self._in += data
        return self._parse()

    def _parse(self) -> List[Tuple[Any, Optional[Parcel]]]:
        found, at, data = [], 0, self._in
        while len(data) - at >= _FRAME.size:
            kind, meta, body = _FRAME.unpack_from(data, at)
            begin = at + _FRAME.size
            if len(data) < begin + meta + body:
                break
            at = begin + meta + body
            with memoryview(data) as view:
                if kind == _KIND_SLAB:
                    self._adopt(*_SLAB.unpack_from(view, begin))
                else:
                    found.append(self._message(view[begin:begin + meta], view[begin + meta:at]))
        del data[:at]
        return found

    def _adopt(self, ident: int, size: int, chunk: int) -> None:
        fd = self._fds.popleft()
        try:
            slab = Slab(ident, fd, size, chunk)
        finally:
            os.close(fd)
        if ident == _CELL_SLAB:
            self.cells = _raw(slab.lend(0)).cast("q")[:CELLS]
        else:
            self._slabs[ident] = slab

    def _message(self, meta: memoryview, body: memoryview) -> Tuple[Any, Optional[Parcel]]:
        with meta, body:
            head, table, dropped = pickle.loads(meta)
            payload = bytes(body)
        rows = [(self._slabs[ident], number, nbytes) for ident, number, nbytes in table]
        parcel = Parcel(self, payload, rows) if payload else None
        for ident in dropped:
            self._slabs.pop(ident, None)
            self._spoilt.discard(ident)
        return head, parcel

    def close(self) -> None:
        """Closes the socket; what was handed out stays valid."""
        self._sock.close()
        while self._fds:
            os.close(self._fds.popleft())
