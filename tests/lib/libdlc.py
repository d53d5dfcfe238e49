# SPDX-License-Identifier: Apache-2.0
"""libdlcache (include/dlcache.h) for scenarios, by ctypes.

    with dl.Daemon() as d, libdlc.Dataset(dl.url("bucket"), daemon=d) as ds:
        assert ds.read(0) == b"..."            a copy
        with ds.get(0) as v:                   a view: v.memory() is the shared memory itself
            ...
    libdlc.processes(8, lambda k: ...)         in eight processes; their results, in order

Errors are raised as libdlc.Error with code and text; the text is searched for secrets.
"""
import ctypes
import functools
import json
import mmap
import os
import pickle
import socket
import struct
import subprocess
import sys

import dl

EINVAL, ENOMEM, EIO, ENOTFOUND, EDENIED, ECHANGED, ECORRUPT, EBUCKET = range(-1, -9, -1)
ETIMEDOUT, EMISS, ENODAEMON, EPROTO, EBUSY, ENOSPACE, ECANCELED = range(-9, -16, -1)

# Keys that have broken programs: everywhere, where S3 allows them, where file names do.
ODD_KEYS = ["a b", " lead", "trail ", "a+b", "a%b", "a%20b", "a%2Fb", "a?b", "a?b=c", "a#b", "a&b", "a=b", "a;b,c:d",
            "quote\"", "'q'", "`tick`", "$HOME", "back\\slash", "(paren)[brack]{brace}", "<tag>", "a|b", "a*b", "~tilde",
            "line\nbreak", "tab\tstop", "return\rx", "dots..", "dot.", "...", "a/b/c", "é/ü", "日本語/写真.jpg", "😀",
            "e\u0301", "\u00a0nbsp", "\u202etxt", "-dash", "--flag", "@at!", "x" * 250]
ODD_S3_KEYS = ["/leading", "double//slash", "a/./b", "a/../b", "trailing/x/../", "k" * 900]
ODD_FILE_KEYS = ["not\udcff\udcfeutf8", "\x01control"]


class CView(ctypes.Structure):
    _fields_ = [("data", ctypes.c_void_p), ("len", ctypes.c_size_t), ("priv", ctypes.c_uint64 * 2)]


class COptions(ctypes.Structure):
    _fields_ = [("socket", ctypes.c_char_p), ("endpoint", ctypes.c_char_p), ("no_spawn", ctypes.c_uint32),
                ("anonymous", ctypes.c_uint32), ("timeout_ms", ctypes.c_uint32), ("refresh", ctypes.c_uint32),
                ("token", ctypes.c_char_p), ("snapshot", ctypes.c_uint64), ("reserved", ctypes.c_uint64 * 6)]


class CStats(ctypes.Structure):
    _fields_ = [(n, ctypes.c_uint64) for n in ("hits", "misses", "bypasses", "bytes", "stall_ns", "reconnects",
                                               "without_daemon")] + [("reserved", ctypes.c_uint64 * 9)]


SEQUENTIAL, SHUFFLED, EXPLICIT = range(3)


class COrder(ctypes.Structure):
    _fields_ = [(n, ctypes.c_uint32) for n in ("kind", "rank", "world", "drop_last", "relaxed", "reserved0")] + \
               [(n, ctypes.c_uint64) for n in ("seed", "epochs", "first", "count")] + \
               [("list", ctypes.POINTER(ctypes.c_uint64)), ("list_len", ctypes.c_uint64),
                ("window", ctypes.c_uint64), ("reserved", ctypes.c_uint64 * 3)]


class CProgress(ctypes.Structure):
    _fields_ = [(n, ctypes.c_uint64) for n in ("epoch", "position", "ahead", "waited_ns")] + \
               [("reserved", ctypes.c_uint64 * 4)]


COVERAGE, SHADE = range(2)
RANK, PLAIN = range(2)


class CImportance(ctypes.Structure):
    _fields_ = [(n, ctypes.c_uint32) for n in ("mode", "rule", "rank", "world")] + \
               [(n, ctypes.c_uint64) for n in ("seed", "first", "count", "length")] + \
               [("every", ctypes.c_uint32), ("reserved0", ctypes.c_uint32), ("replication", ctypes.c_double),
                ("prefer", ctypes.c_double), ("job", ctypes.c_char_p), ("reserved", ctypes.c_uint64 * 6)]


class CLearnt(ctypes.Structure):
    _fields_ = [("used", ctypes.c_uint64), ("ignored", ctypes.c_uint64), ("mean", ctypes.c_double),
                ("reserved", ctypes.c_uint64 * 5)]


class CDrawn(ctypes.Structure):
    _fields_ = [(n, ctypes.c_uint64) for n in ("distinct", "forced", "resident", "part")] + \
               [("effective", ctypes.c_double), ("reserved", ctypes.c_uint64 * 6)]


class CScale(ctypes.Structure):
    _fields_ = [(n, ctypes.c_double) for n in ("first", "mean", "sum")] + \
               [(n, ctypes.c_uint64) for n in ("count", "epoch")] + [("reserved", ctypes.c_uint64 * 3)]


class CSwap(ctypes.Structure):
    _fields_ = [("position", ctypes.c_uint64), ("sample", ctypes.c_uint64)]


class Error(Exception):
    def __init__(self, code, text):
        super().__init__("%s (%d)" % (dl.hide_nothing(text), code))
        self.code, self.text = code, text


# name: (result, arguments); a negative int is an error
U64, PTR, SIZE = ctypes.c_uint64, ctypes.c_void_p, ctypes.c_size_t
VIEWS, U64S, FLOATS = ctypes.POINTER(CView), ctypes.POINTER(U64), ctypes.POINTER(ctypes.c_float)
FUNCTIONS = {
    "dlc_open": (ctypes.c_int, [ctypes.c_char_p, ctypes.POINTER(COptions), ctypes.POINTER(PTR)]),
    "dlc_close": (None, [ctypes.POINTER(PTR)]),
    "dlc_snapshot": (U64, [PTR]),
    "dlc_count": (U64, [PTR]),
    "dlc_key": (ctypes.c_int, [PTR, U64, ctypes.c_char_p, SIZE]),
    "dlc_size": (ctypes.c_int64, [PTR, U64]),
    "dlc_find": (ctypes.c_int, [PTR, ctypes.c_char_p, U64S]),
    "dlc_label": (ctypes.c_int64, [PTR, U64]),
    "dlc_class_count": (U64, [PTR]),
    "dlc_class_name": (ctypes.c_int, [PTR, U64, ctypes.c_char_p, SIZE]),
    "dlc_split": (ctypes.c_int, [PTR, ctypes.c_char_p, U64S, U64S]),
    "dlc_split_count": (ctypes.c_uint, [PTR]),
    "dlc_split_name": (ctypes.c_int, [PTR, ctypes.c_uint, ctypes.c_char_p, SIZE]),
    "dlc_target": (ctypes.c_int, [PTR, U64, U64S]),
    "dlc_column": (ctypes.c_int, [PTR, U64, ctypes.c_char_p, ctypes.c_char_p, SIZE]),
    "dlc_column_count": (ctypes.c_uint, [PTR]),
    "dlc_column_name": (ctypes.c_int, [PTR, ctypes.c_uint, ctypes.c_char_p, SIZE]),
    "dlc_get": (ctypes.c_int, [PTR, U64, VIEWS]),
    "dlc_try_get": (ctypes.c_int, [PTR, U64, VIEWS]),
    "dlc_get_many": (ctypes.c_int, [PTR, U64S, SIZE, VIEWS, ctypes.POINTER(SIZE)]),
    "dlc_put": (None, [PTR, VIEWS]),
    "dlc_read": (ctypes.c_int64, [PTR, U64, ctypes.c_void_p, SIZE]),
    "dlc_prefetch": (ctypes.c_int, [PTR, U64S, SIZE]),
    "dlc_follow": (ctypes.c_int, [PTR, ctypes.POINTER(COrder), U64, U64]),
    "dlc_epoch_length": (ctypes.c_int64, [PTR]),
    "dlc_next": (ctypes.c_int, [PTR, VIEWS, U64S]),
    "dlc_tell": (None, [PTR, U64S, U64S]),
    "dlc_tell_swaps": (ctypes.c_int64, [PTR, U64S, U64S, ctypes.POINTER(CSwap), SIZE]),
    "dlc_follow_swapped": (ctypes.c_int, [PTR, ctypes.POINTER(COrder), U64, U64, ctypes.POINTER(CSwap), SIZE]),
    "dlc_take": (ctypes.c_int64, [PTR, U64, U64, U64S, SIZE]),
    "dlc_follow_more": (ctypes.c_int, [PTR, U64S, U64]),
    "dlc_advance": (ctypes.c_int, [PTR, ctypes.POINTER(CProgress)]),
    "dlc_importance": (ctypes.c_int, [PTR, ctypes.POINTER(CImportance)]),
    "dlc_learn": (ctypes.c_int, [PTR, U64, U64S, FLOATS, SIZE, ctypes.POINTER(CLearnt)]),
    "dlc_draw": (ctypes.c_int64, [PTR, U64, U64S, U64, ctypes.POINTER(CDrawn)]),
    "dlc_weights": (ctypes.c_int, [PTR, U64, U64, FLOATS]),
    "dlc_set_weights": (ctypes.c_int, [PTR, U64, U64, FLOATS]),
    "dlc_scale": (ctypes.c_int, [PTR, ctypes.POINTER(CScale)]),
    "dlc_set_scale": (ctypes.c_int, [PTR, ctypes.POINTER(CScale)]),
    "dlc_daemon_stats": (ctypes.c_int64, [PTR, ctypes.c_char_p, SIZE]),
    "dlc_dataset_stats": (None, [PTR, ctypes.POINTER(CStats)]),
    "dlc_last_error": (ctypes.c_char_p, []),
    "dlc_strerror": (ctypes.c_char_p, [ctypes.c_int]),
    "dlc_version": (ctypes.c_char_p, []),
}


def preload_sanitizer():
    """A sanitizer's runtime must be there before Python: start this program again with it."""
    with open(os.path.join(dl.BUILD, "meson-info/intro-buildoptions.json")) as f:
        kind = next(o["value"] for o in json.load(f) if o["name"] == "b_sanitize")
    runtime = {"address": "libasan.so", "thread": "libtsan.so"}.get(kind.split(",")[0])
    if runtime is None or "DLC_TEST_PRELOADED" in os.environ:
        return
    path = subprocess.run(["gcc", "-print-file-name=" + runtime], capture_output=True, text=True).stdout.strip()
    env = dict(os.environ, DLC_TEST_PRELOADED="1", LD_PRELOAD=os.path.realpath(path))
    env["ASAN_OPTIONS"] += ":detect_leaks=0"  # Python never frees all; the daemon's leaks are looked for
    os.execve(sys.executable, [sys.executable, *sys.orig_argv[1:]], env)  # also of -c


@functools.cache
def lib():
    path = os.path.join(dl.BUILD, "libdlcache.so")
    if not os.path.exists(path):
        raise dl.Skip("%s is not built" % path)
    so = ctypes.CDLL(path)
    for name, (result, arguments) in FUNCTIONS.items():
        function = getattr(so, name)
        function.restype, function.argtypes = result, arguments
    return so


def check(rc):
    """rc, or the error it stands for."""
    if rc < 0:
        raise Error(rc, lib().dlc_last_error().decode(errors="replace"))
    return rc


def name(key):
    return key if isinstance(key, bytes) else key.encode(errors="surrogateescape")


class View:
    """Bytes of a sample, held until put()."""

    def __init__(self, ds, c):
        self.ds, self.c = ds, c

    def __len__(self):
        return self.c.len

    def memory(self):
        return memoryview((ctypes.c_char * self.c.len).from_address(self.c.data)).cast("B") if self.c.len else b""

    def bytes(self):
        return ctypes.string_at(self.c.data, self.c.len) if self.c.len else b""

    def put(self):
        lib().dlc_put(self.ds.handle, ctypes.byref(self.c))

    def __enter__(self):
        return self

    def __exit__(self, *exc):
        self.put()


class Dataset:
    """daemon: a dl.Daemon whose socket and credentials this process then uses (spawn=False), or None."""

    def __init__(self, url, daemon=None, spawn=None, endpoint=None, anonymous=False, timeout_ms=0, refresh=False,
                 token=None, snapshot=0):
        if daemon is not None:
            os.environ.update(daemon.env)
        spawn = daemon is None if spawn is None else spawn
        options = COptions(endpoint=endpoint and endpoint.encode(), no_spawn=not spawn, anonymous=anonymous,
                           timeout_ms=timeout_ms, refresh=refresh, token=token and token.encode(), snapshot=snapshot)
        self.handle = PTR()
        check(lib().dlc_open(name(url), ctypes.byref(options), ctypes.byref(self.handle)))

    def __enter__(self):
        return self

    def __exit__(self, *exc):
        self.close()

    def close(self):
        lib().dlc_close(ctypes.byref(self.handle))

    @property
    def snapshot(self):
        return lib().dlc_snapshot(self.handle)

    def __len__(self):
        return lib().dlc_count(self.handle)

    def key(self, i):
        return self.text("dlc_key", i)

    def keys(self):
        return [self.key(i) for i in range(len(self))]

    def size(self, i):
        return check(lib().dlc_size(self.handle, i))

    def find(self, key):
        i = U64()
        check(lib().dlc_find(self.handle, name(key), ctypes.byref(i)))
        return i.value

    def text(self, function, *args):
        """What a function that copies a text gives; bytes that are no UTF-8 as surrogates."""
        buf = ctypes.create_string_buffer(4096)
        n = check(getattr(lib(), function)(self.handle, *args, buf, len(buf)))
        return buf.raw[:n].decode(errors="surrogateescape")

    def label(self, i):
        """None: it has none."""
        rc = lib().dlc_label(self.handle, i)
        return None if rc == ENOTFOUND else check(rc)

    def classes(self):
        return [self.text("dlc_class_name", k) for k in range(lib().dlc_class_count(self.handle))]

    def splits(self):
        return [self.text("dlc_split_name", k) for k in range(lib().dlc_split_count(self.handle))]

    def split(self, split):
        first, count = U64(), U64()
        check(lib().dlc_split(self.handle, name(split), ctypes.byref(first), ctypes.byref(count)))
        return range(first.value, first.value + count.value)

    def target(self, i):
        target = U64()
        check(lib().dlc_target(self.handle, i, ctypes.byref(target)))
        return target.value

    def columns(self):
        return [self.text("dlc_column_name", k) for k in range(lib().dlc_column_count(self.handle))]

    def column(self, i, column):
        return self.text("dlc_column", i, name(column))

    def labels(self):
        """The names of the classes of all samples."""
        names = self.classes()
        return [names[self.label(i)] for i in range(len(self))]

    def contents(self):
        """{key: bytes} of all samples."""
        return {self.key(i): self.read(i) for i in range(len(self))}

    def get(self, i):
        view = CView()
        check(lib().dlc_get(self.handle, i, ctypes.byref(view)))
        return View(self, view)

    def try_get(self, i):
        """None: not resident."""
        view = CView()
        rc = lib().dlc_try_get(self.handle, i, ctypes.byref(view))
        return None if rc == EMISS else View(self, view) if check(rc) == 0 else None

    def get_many(self, idx):
        views, bad = (CView * len(idx))(), SIZE(0)
        rc = lib().dlc_get_many(self.handle, (U64 * len(idx))(*idx), len(idx), views, ctypes.byref(bad))
        if rc < 0:
            error = Error(rc, lib().dlc_last_error().decode(errors="replace"))
            error.bad = bad.value
            raise error
        return [View(self, v) for v in views]

    def read(self, i):
        """A copy, through dlc_read()."""
        n = self.size(i)
        buf = ctypes.create_string_buffer(max(n, 1))
        got = check(lib().dlc_read(self.handle, i, buf, len(buf)))
        assert got == n, "dlc_read says %d bytes and dlc_size %d" % (got, n)
        return buf.raw[:n]

    def prefetch(self, idx):
        check(lib().dlc_prefetch(self.handle, (U64 * len(idx))(*idx), len(idx)))

    def follow(self, kind=SHUFFLED, epoch=0, position=0, samples=None, swaps=(), **order):
        """Read in this order from now on; samples: the list of an explicit one; swaps: as state() gives them.
        Returns self."""
        if samples is not None:
            kind, order["list"], order["list_len"] = EXPLICIT, (U64 * len(samples))(*samples), len(samples)
        order = ctypes.byref(COrder(kind=kind, **order))
        if swaps:
            pairs = (CSwap * len(swaps))(*swaps)
            check(lib().dlc_follow_swapped(self.handle, order, epoch, position, pairs, len(swaps)))
        else:
            check(lib().dlc_follow(self.handle, order, epoch, position))
        return self

    def epoch_length(self):
        return check(lib().dlc_epoch_length(self.handle))

    def next(self):
        """(sample, view) or, at the end of an epoch, None."""
        view, sample = CView(), U64()
        rc = check(lib().dlc_next(self.handle, ctypes.byref(view), ctypes.byref(sample)))
        return (sample.value, View(self, view)) if rc == 1 else None

    def epoch(self, n=None):
        """What is left of this epoch, n samples at most: sample and bytes of each."""
        while n is None or n > 0:
            got = self.next()
            if got is None:
                return
            with got[1] as view:
                yield got[0], view.bytes()
            n = None if n is None else n - 1

    def tell(self):
        epoch, position = U64(), U64()
        lib().dlc_tell(self.handle, ctypes.byref(epoch), ctypes.byref(position))
        return epoch.value, position.value

    def state(self):
        """{epoch, position, swaps}: what follow() goes on from."""
        epoch, position = U64(), U64()
        where = self.handle, ctypes.byref(epoch), ctypes.byref(position)
        pairs = (CSwap * check(lib().dlc_tell_swaps(*where, None, 0)))()
        check(lib().dlc_tell_swaps(*where, pairs, len(pairs)))
        return {"epoch": epoch.value, "position": position.value, "swaps": [(p.position, p.sample) for p in pairs]}

    def take(self, epoch, position, n):
        samples = (U64 * n)()
        return samples[:check(lib().dlc_take(self.handle, epoch, position, samples, n))]

    def follow_more(self, samples):
        check(lib().dlc_follow_more(self.handle, (U64 * len(samples))(*samples), len(samples)))

    def advance(self, epoch, position, ahead=0, waited_s=0):
        progress = CProgress(epoch=epoch, position=position, ahead=ahead, waited_ns=int(waited_s * 1e9))
        check(lib().dlc_advance(self.handle, ctypes.byref(progress)))

    def importance(self, mode=COVERAGE, **spec):
        """Begin to weigh samples. Returns self."""
        if spec.get("job") is not None:
            spec["job"] = name(spec["job"])
        check(lib().dlc_importance(self.handle, ctypes.byref(CImportance(mode=mode, **spec))))
        return self

    def learn(self, epoch, samples, losses):
        """What came of it: used, ignored, mean."""
        got = CLearnt()
        check(lib().dlc_learn(self.handle, epoch, (U64 * len(samples))(*samples),
                              (ctypes.c_float * len(losses))(*losses), len(samples), ctypes.byref(got)))
        return got.used, got.ignored, got.mean

    def draw(self, epoch):
        """The list, and its figures."""
        n = check(lib().dlc_draw(self.handle, epoch, None, 0, None))
        numbers, got = (U64 * n)(), CDrawn()
        assert check(lib().dlc_draw(self.handle, epoch, numbers, n, ctypes.byref(got))) == n
        return list(numbers), got

    def weights(self, first=0, n=None):
        n = len(self) if n is None else n
        got = (ctypes.c_float * n)()
        check(lib().dlc_weights(self.handle, first, n, got))
        return list(got)

    def set_weights(self, weights, first=0):
        check(lib().dlc_set_weights(self.handle, first, len(weights), (ctypes.c_float * len(weights))(*weights)))

    def daemon_stats(self):
        size = 1 << 16
        while True:
            text = ctypes.create_string_buffer(size)
            n = check(lib().dlc_daemon_stats(self.handle, text, size))
            if n < size:
                return json.loads(text.value)
            size = 2 * n

    def stats(self):
        s = CStats()
        lib().dlc_dataset_stats(self.handle, ctypes.byref(s))
        return {n: getattr(s, n) for n, _ in CStats._fields_ if n != "reserved"}


def refused(code, call, *args, **how):
    """The text of the error with which call() fails; fails the test unless it is this error."""
    try:
        call(*args, **how)
    except Error as e:
        if e.code != code:
            raise AssertionError("error %d, not %d: %s" % (e.code, code, e.text)) from None
        return e.text
    raise AssertionError("it did not fail, with error %d expected" % code)


class Process:
    """A forked process that runs work() and hands over what it returns."""

    def __init__(self, work):
        sys.stdout.flush()
        sys.stderr.flush()
        self.pipe, end = os.pipe()
        self.pid = os.fork()
        if self.pid == 0:
            status = 1
            try:
                os.close(self.pipe)
                with os.fdopen(end, "wb") as f:
                    pickle.dump(work(), f)
                status = 0
            except BaseException:
                sys.excepthook(*sys.exc_info())
            finally:
                sys.stderr.flush()
                os._exit(status)
        os.close(end)

    def kill(self, signal=9):
        os.kill(self.pid, signal)
        os.close(self.pipe)
        return os.waitpid(self.pid, 0)[1]

    def result(self):
        with os.fdopen(self.pipe, "rb") as f:
            text = f.read()
        _, status = os.waitpid(self.pid, 0)
        if status != 0:
            raise AssertionError("process %d ended with status %#x" % (self.pid, status))
        return pickle.loads(text)


def processes(n, work):
    """[work(0), ..., work(n - 1)], each in a process of its own, all at once."""
    return [p.result() for p in [Process(functools.partial(work, k)) for k in range(n)]]


class Gate:
    """Forked processes wait() at it; their parent knows when n came(), and lets them go with open()."""

    def __init__(self):
        self.come, self.go = os.pipe(), os.pipe()

    def wait(self):
        os.write(self.come[1], b".")
        os.close(self.go[1])
        os.read(self.go[0], 1)

    def came(self, n):
        """Returns when n have come; fails the test when they never will."""
        os.close(self.come[1])
        while n > 0:
            arrived = len(os.read(self.come[0], n))
            assert arrived > 0, "a process ended before it came to the gate"
            n -= arrived

    def open(self, n=0):
        if n > 0:
            self.came(n)
        os.close(self.go[1])


def alive(pid):
    """A process that has ended but was not waited for yet does not count."""
    try:
        with open("/proc/%d/stat" % pid) as f:
            return f.read().rpartition(")")[2].split()[0] != "Z"
    except (FileNotFoundError, ProcessLookupError):
        return False


# Where things lie in a session's memory (docs/format/shm.md).
TAIL, CURSOR, RING, CELLS, BLOCKS, SESSION = 64, 200, 4096, 8192, 8192 + 256 * 512, 8192 + 256 * 512 + 1024 * 1024


class Raw:
    """A client that speaks the control protocol (docs/format/protocol.md) by itself, and need not be polite."""

    def __init__(self, daemon, greet=True):
        self.sock = socket.socket(socket.AF_UNIX)
        self.sock.settimeout(20 * dl.SLOW)
        self.sock.connect(daemon.socket)
        if greet:
            assert self.ask({"op": "hello", "version": 1, "pid": os.getpid()})["ok"]

    @staticmethod
    def frame(body, fds=0):
        text = json.dumps(body).encode()
        return struct.pack("=4sIII", b"dlc1", len(text), fds, 0) + text

    def answer(self):
        """The next message; descriptors that come along are kept in self.fds."""
        data, self.fds, _, _ = socket.recv_fds(self.sock, 16, 8, socket.MSG_WAITALL)
        magic, length, n, _ = struct.unpack("=4sIII", data)
        assert magic == b"dlc1" and n == len(self.fds), (data, self.fds)
        text = b""
        while len(text) < length:
            text += self.sock.recv(length - len(text))
        return json.loads(text)

    def ask(self, body):
        self.sock.sendall(self.frame(body))
        answer = self.answer()
        while "progress" in answer:
            answer = self.answer()
        return answer

    def attach(self, url):
        """Opens a dataset; the session's memory, writable."""
        assert self.ask({"op": "open", "url": url})["ok"]
        self.doorbell = self.fds[3]
        return mmap.mmap(self.fds[2], SESSION)

    def ring(self):
        os.write(self.doorbell, (1).to_bytes(8, sys.byteorder))

    def ended(self):
        """Has the daemon closed the connection?"""
        self.sock.setblocking(False)
        try:
            return self.sock.recv(1) == b""
        except BlockingIOError:
            return False
        except ConnectionError:
            return True

    def __enter__(self):
        return self

    def __exit__(self, *exc):
        self.sock.close()
        for fd in getattr(self, "fds", []):
            os.close(fd)


preload_sanitizer()
