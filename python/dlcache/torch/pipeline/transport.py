# SPDX-License-Identifier: Apache-2.0
"""Messages and batches over one unix socket between a worker and its parent.

The worker holds a WorkerEnd, the training process a ParentEnd. A batch is a pickle (protocol 5).
Buffers of at least SMALL bytes (dense CPU tensors, numpy arrays, whatever gives pickle a
PickleBuffer) do not travel in the pickle: they lie in chunks of slabs (shm_slabs.py), which the
worker creates and announces once. The tensors of the parent are writable views of those chunks.
When the last view of a chunk is gone, the parent says so with its next message.

(TRANSPORT-1) A ParentEnd never blocks: bytes that the socket does not accept wait in the object. A
     WorkerEnd may block: the parent keeps reading.
(TRANSPORT-2) After a fork of the parent the child may still see chunks that were lent: their slabs
     are not used again.
(TRANSPORT-3) A batch that was handed out stays valid after close(), and after the worker's death.
(TRANSPORT-4) If the worker gets no memfd or no mapping, buffers travel inside the pickle.
"""
from __future__ import annotations

import copyreg
import ctypes
import errno
import io
import mmap
import os
import pickle
import socket
import struct
from array import array
from collections import deque
from typing import Any, Dict, List, NamedTuple, Optional, Tuple

import torch

from dlcache.torch.pipeline.shm_slabs import (SMALL, Key, Lease, Slab, SlabAllocator, forks,
                                              make_slab, raw)

__all__ = ["PackedBatch", "ParentEnd", "ReceivedBatch", "WorkerEnd"]

CELLS = 4  # int64 cells that the worker writes and the parent may read at any time

_READ = 1 << 16
_SEND_FLAGS = int(socket.MSG_DONTWAIT | socket.MSG_NOSIGNAL)
_RECEIVE_FLAGS = int(socket.MSG_DONTWAIT | socket.MSG_CMSG_CLOEXEC)
_ANCILLARY = socket.CMSG_SPACE(64)
_FRAME = struct.Struct("<IIQ")  # worker to parent: kind, bytes of meta, bytes of body
_LENGTH = struct.Struct("<Q")  # parent to worker
_SLAB = struct.Struct("<QQQ")  # number of the slab, its size, size of its chunks
_KIND_SLAB, _KIND_MESSAGE = 1, 2
_CELL_SLAB = 0


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


class PackedBatch(NamedTuple):
    """A batch ready to be sent: its pickle, and (slab, chunk, bytes) of each buffer outside."""
    body: bytes
    table: List[Tuple[int, int, int]]


class WorkerEnd:
    """The worker's end."""

    def __init__(self, sock: socket.socket) -> None:
        self._sock = sock
        self._in = bytearray()
        self._allocator = SlabAllocator(self._announce)
        self._table: List[Tuple[int, int, int]] = []
        self._placed = None  # the chunk that the buffer pickled next lies in already
        self.cells = self._make_cells()

    def _make_cells(self):
        try:
            page = mmap.PAGESIZE
            slab = make_slab(_CELL_SLAB, page, page, self._announce)
            return raw(slab.lend(0)).cast("q")[:CELLS]
        except (BrokenPipeError, ConnectionResetError):
            raise
        except OSError:
            return array("q", [0] * CELLS)

    def _announce(self, slab: Slab, fd: int) -> None:
        frame = _FRAME.pack(_KIND_SLAB, _SLAB.size, 0)
        frame += _SLAB.pack(slab.ident, slab.size, slab.chunk)
        sent = socket.send_fds(self._sock, [frame], [fd])
        self._sock.sendall(frame[sent:])

    def empty(self, size: tuple, dtype: torch.dtype, nbytes: int) -> Optional[torch.Tensor]:
        """A tensor in shared memory, which pack() will not copy; None if that is not worth it."""
        chunk = self._allocator.take(nbytes) if nbytes >= SMALL else None
        if chunk is None:
            return None
        return torch.frombuffer(raw(chunk)[:nbytes], dtype=dtype).view(size)

    def pack(self, batch: Any) -> PackedBatch:
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
                self._allocator.put((slab, number))
            raise
        return PackedBatch(file.getvalue(), table)

    def _reduce(self, t: torch.Tensor):
        if not _is_plain(t):
            return t.__reduce_ex__(5)
        grad = t.requires_grad
        if grad and not t.is_leaf:
            raise RuntimeError("a batch holds a tensor that requires grad and is not a leaf: its "
                               "graph cannot leave the worker; return tensor.detach()")
        t = t.detach().resolve_conj().resolve_neg()
        size, nbytes = tuple(t.shape), t.numel() * t.element_size()
        if nbytes == 0:
            return empty, (t.dtype, size, grad)
        inner, stride = _dense(t)
        buffer: Any = self._place(inner, nbytes) if nbytes >= SMALL else None
        if buffer is None:
            inner = inner.contiguous()
            buffer = bytearray(ctypes.string_at(inner.data_ptr(), nbytes))
        return tensor, (buffer, t.dtype, size, stride, grad)

    def _place(self, t: torch.Tensor, nbytes: int) -> Optional[pickle.PickleBuffer]:
        """Puts the elements into a chunk, where they are not in one."""
        chunk = self._allocator.opened(t.data_ptr()) if t.is_contiguous() else None
        if chunk is None:
            chunk = self._allocator.take(nbytes)
            if chunk is None:
                return None
            torch.frombuffer(raw(chunk)[:nbytes], dtype=t.dtype).view(t.shape).copy_(t)
        self._placed = chunk
        return pickle.PickleBuffer(raw(chunk)[:nbytes])

    def _out_of_band(self, buffer: pickle.PickleBuffer) -> bool:
        """True: keep it in the pickle."""
        data = buffer.raw()
        chunk, self._placed = self._placed, None
        if chunk is None:
            chunk = self._allocator.take(data.nbytes) if data.nbytes >= SMALL else None
            if chunk is None:
                return True
            raw(chunk)[:data.nbytes] = data
        self._allocator.sent(chunk)
        self._table.append((chunk.slab.ident, chunk.number, data.nbytes))
        return False

    def send(self, head: Any, packed: Optional[PackedBatch] = None) -> None:
        """Sends a small message and perhaps a batch. Blocks while the parent does not read."""
        body, table = packed if packed is not None else (b"", [])
        meta = pickle.dumps((head, table, self._allocator.next_batch()), 5)
        frame = _FRAME.pack(_KIND_MESSAGE, len(meta), len(body)) + meta
        if len(body) <= _READ:
            self._sock.sendall(frame + body)
        else:
            self._sock.sendall(frame)
            self._sock.sendall(body)

    def receive(self, wait: bool) -> Optional[tuple]:
        """The next message of the parent as a tuple of one; None: there is none. Does not wait.

        Raises EOFError after the parent has ended.
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
                raise EOFError("the parent process has closed its end")
            self._in += data

    def _parse(self) -> Optional[tuple]:
        if len(self._in) < _LENGTH.size:
            return None
        end = _LENGTH.size + _LENGTH.unpack_from(self._in)[0]
        if len(self._in) < end:
            return None
        returned, spoilt, body = pickle.loads(memoryview(self._in)[_LENGTH.size:end])
        del self._in[:end]
        for ident in spoilt:
            self._allocator.drop(ident)
        for key in returned:
            self._allocator.put(key)
        return (pickle.loads(body),)


class ReceivedBatch:
    """A batch that has arrived; exactly one of open() and discard() is to be called."""
    __slots__ = ("_end", "_body", "_table")

    def __init__(self, end: "ParentEnd", body: bytes, table: list) -> None:
        self._end, self._body, self._table = end, body, table

    def open(self) -> Any:
        """The batch. Its tensors are views of the worker's slabs until they go."""
        return pickle.loads(self._body, buffers=[self._end._lend(*row) for row in self._table])

    def discard(self) -> None:
        self._end._returned.extend((slab.ident, number) for slab, number, _ in self._table)


class ParentEnd:
    """The end of the training process. Never blocks."""

    def __init__(self, sock: socket.socket) -> None:
        self._sock = sock
        self._in = bytearray()
        self._fds: deque = deque()
        self._out = bytearray()
        self._slabs: Dict[int, Slab] = {}
        self._spoilt: set = set()
        self._leases: Dict[Key, Lease] = {}
        self._gone: deque = deque()
        self._returned: List[Key] = []
        self.cells: Optional[memoryview] = None  # what the worker writes; None before it began
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
        lease = Lease(chunk, self._gone.append)
        lease.key, lease.forks = (slab.ident, number), forks()
        self._leases[lease.key] = lease
        return raw(chunk)[:nbytes]

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
            if lease.forks == forks():
                returned.append(lease.key)
            else:
                self._spoilt.add(ident)
                spoilt.append(ident)
        return returned, spoilt

    def send(self, message: Any) -> None:
        """Sends a message, with the chunks that can be used again."""
        body = pickle.dumps(message, 5)  # may raise, and then nothing has happened
        data = pickle.dumps((*self._collect(), body), 5)
        self._out += _LENGTH.pack(len(data)) + data
        self.flush()

    def flush(self) -> None:
        try:
            sent = self._sock.send(self._out, _SEND_FLAGS)
            del self._out[:sent]
        except BlockingIOError:
            pass
        except (BrokenPipeError, ConnectionResetError):
            self._out.clear()  # reading tells the end

    def receive(self) -> List[Tuple[Any, Optional[ReceivedBatch]]]:
        """What has arrived: (head, batch or None), one by one. Sets `ended` at the end of file."""
        try:
            data, ancillary, flags, _ = self._sock.recvmsg(_READ, _ANCILLARY, _RECEIVE_FLAGS)
        except BlockingIOError:
            return []
        except ConnectionResetError:
            data, ancillary, flags = b"", [], 0
        for _, _, descriptors in ancillary:
            self._fds.extend(array("i", descriptors[:len(descriptors) // 4 * 4]))
        if flags & socket.MSG_CTRUNC:
            raise OSError(errno.EMFILE, "cannot take the shared memory of a worker: too many open "
                          "files; raise the limit (ulimit -n) or use fewer workers")
        self.ended = not data
        self._in += data
        return self._parse()

    def _parse(self) -> List[Tuple[Any, Optional[ReceivedBatch]]]:
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
            self.cells = raw(slab.lend(0)).cast("q")[:CELLS]
        else:
            self._slabs[ident] = slab

    def _message(self, meta: memoryview, body: memoryview) -> Tuple[Any, Optional[ReceivedBatch]]:
        with meta, body:
            head, table, dropped = pickle.loads(meta)
            payload = bytes(body)
        rows = [(self._slabs[ident], number, nbytes) for ident, number, nbytes in table]
        batch = ReceivedBatch(self, payload, rows) if payload else None
        for ident in dropped:
            self._slabs.pop(ident, None)
            self._spoilt.discard(ident)
        return head, batch

    def close(self) -> None:
        """Closes the socket and lets the slabs go; what was handed out stays valid."""
        self._sock.close()
        self._slabs.clear()
        while self._fds:
            os.close(self._fds.popleft())
