# SPDX-License-Identifier: Apache-2.0
"""Real Redis servers on loopback or on hosts of their own: one, or a Cluster with replicas.

    with redisd.One() as r:                     r.url "redis://127.0.0.1:PORT"
    with redisd.Cluster(replicas=1) as c:       three masters, a replica each; c.url names all of them
        c.ask(0, "DBSIZE")                      a command to server 0; strings, integers, None, lists
        c.kill(c.owner(b"{dlcache}"))           SIGKILL for the server that has this key
        c.start(0)                              again, with its data
    with redisd.One(tls=k8s.Certificates(dir)) as r:    TLS only, as `server` of that CA; r.url "rediss://..."

Needs redis-server (tools/deps test) and nothing else. Ports are free ones; data lies in a directory of the
caller's or a temporary one; servers die with the process. tests/unit/manager/store/redis_servers.c is the same in C.
"""
import contextlib
import ctypes
import os
import random
import shutil
import signal
import socket
import ssl
import subprocess
import tempfile
import time

from hosts_local import HERE

BUS = 10000  # servers of a Cluster talk at port + this


class Error(Exception):
    """What a server answered with '-'."""


def exists():
    return shutil.which("redis-server") is not None


def is_free(port, host):
    with socket.socket() as s:
        try:
            s.bind((host, port))
        except OSError:
            return False
        return True


def free_port(place=HERE):
    """Below what the kernel gives to clients, and its bus too."""
    for _ in range(1000):
        port = random.randrange(12000, 20000)
        with place.inside():
            if is_free(port, place.address) and is_free(port + BUS, place.address):
                return port
    raise RuntimeError("no free port")


def slot(key):
    """Which of the 16384 slots a key lies in."""
    begin = key.find(b"{")
    end = key.find(b"}", begin + 1)
    if begin >= 0 and end > begin + 1:
        key = key[begin + 1:end]
    crc = 0
    for byte in key:
        crc ^= byte << 8
        for _ in range(8):
            crc = (crc << 1 ^ 0x1021) & 0xFFFF if crc & 0x8000 else crc << 1
    return crc % 16384


def call(host, port, *words, password=None, timeout=5.0, tls=None):
    """One command over a connection of its own."""
    with contextlib.ExitStack() as stack:
        s = stack.enter_context(socket.create_connection((host, port), timeout))
        s = stack.enter_context(tls.wrap_socket(s, server_hostname=host)) if tls else s
        f = stack.enter_context(s.makefile("rb"))
        def send(*args):
            args = [a if isinstance(a, bytes) else str(a).encode() for a in args]
            s.sendall(b"*%d\r\n" % len(args) + b"".join(b"$%d\r\n%s\r\n" % (len(a), a) for a in args))
            return read(f)
        if password:
            send("AUTH", password)
        return send(*words)


def read(f):
    line = f.readline()
    if not line.endswith(b"\r\n"):
        raise ConnectionError("the server is gone")
    kind, rest = line[:1], line[1:-2]
    if kind == b"-":
        raise Error(rest.decode(errors="replace"))
    if kind == b"+":
        return rest.decode()
    if kind == b":":
        return int(rest)
    if kind == b"$":
        return None if rest == b"-1" else f.read(int(rest) + 2)[:-2].decode(errors="surrogateescape")
    return None if rest == b"-1" else [read(f) for _ in range(int(rest))]


def _die_with_parent():
    ctypes.CDLL(None).prctl(1, signal.SIGKILL, 0, 0, 0)


def _wait(condition, what, timeout=40.0):
    end = time.monotonic() + timeout
    while not condition():
        if time.monotonic() > end:
            raise AssertionError("waited %d s for %s" % (timeout, what))
        time.sleep(0.01)


class Servers:
    """flags: more settings of redis-server. places: where each runs (hosts.Host); here unless told."""

    def __init__(self, n, *flags, password=None, dir=None, places=None, ports=None, persist=True,
                 tls=None):
        self.n, self.flags, self.password, self.places = n, list(flags), password, places or [HERE] * n
        self.own = dir is None
        self.dir = dir or tempfile.mkdtemp(prefix="redis-", dir=os.environ.get("TEST_DIR"))
        self.hosts = [p.address for p in self.places]
        self.ports = ports or []
        self.persist = persist
        self.processes = [None] * n
        self.tls, self.context = tls, tls and ssl.create_default_context(cafile=tls.path("ca.crt"))

    def argv(self, i):
        here = os.path.join(self.dir, "redis-%d" % i)
        os.makedirs(here, exist_ok=True)
        argv = ["redis-server", "--port", str(self.ports[i]), "--bind", self.hosts[i], "--dir", here,
                "--save", "", "--appendonly", "yes" if self.persist else "no", "--appendfsync", "no",
                "--logfile", here + "/log", "--repl-diskless-sync-delay", "0", "--protected-mode", "no"]
        if self.tls:
            argv[1] = "--tls-port"
            argv += ["--port", "0", "--tls-cluster", "yes", "--tls-replication", "yes", "--tls-auth-clients", "no",
                     "--tls-ca-cert-file", self.tls.path("ca.crt"), "--tls-cert-file", self.tls.path("server.crt"),
                     "--tls-key-file", self.tls.path("server.key")]
        if self.password:
            argv += ["--requirepass", self.password, "--masterauth", self.password]
        return self.places[i].command(argv + self.flags)

    def start(self, i):
        if len(self.ports) <= i:
            self.ports.append(free_port(self.places[i]))
        self.processes[i] = subprocess.Popen(self.argv(i), stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                                             preexec_fn=_die_with_parent)
        _wait(lambda: self.processes[i].poll() is not None or self.answers(i), "redis-server %d" % i)
        if self.processes[i].poll() is not None:
            raise AssertionError("redis-server ended; see %s/redis-%d/log" % (self.dir, i))

    def answers(self, i):
        try:
            return self.ask(i, "PING") == "PONG"
        except (OSError, Error):
            return False

    def ask(self, i, *words):
        """A command to server i; one text is split at blanks."""
        words = words[0].split() if len(words) == 1 and isinstance(words[0], str) else words
        with self.places[i].inside():
            return call(self.hosts[i], self.ports[i], *words, password=self.password, tls=self.context)

    def signal(self, i, number):
        self.processes[i].send_signal(number)

    def kill(self, i):
        if self.processes[i] is not None:
            self.processes[i].kill()
            self.processes[i].wait()
            self.processes[i] = None

    def stop(self):
        for i in range(self.n):
            self.kill(i)
        if self.own:
            shutil.rmtree(self.dir, ignore_errors=True)

    @property
    def url(self):
        who = ":%s@" % self.password if self.password else ""
        return ("rediss://" if self.tls else "redis://") + who + ",".join("%s:%d" % p for p in zip(self.hosts, self.ports))

    def pids(self):
        return [p.pid for p in self.processes if p is not None]

    def __enter__(self):
        try:
            self.begin()
        except BaseException:
            self.stop()
            raise
        return self

    def begin(self):
        for i in range(self.n):
            self.start(i)

    def __exit__(self, *_):
        self.stop()


class One(Servers):
    def __init__(self, *flags, **how):
        super().__init__(1, *flags, **how)


class Cluster(Servers):
    """The first `masters` servers are masters; server i + masters is a replica of server i, and so on."""

    def __init__(self, *flags, masters=3, replicas=0, node_timeout_ms=1000, **how):
        self.masters, self.replicas = masters, replicas
        more = ["--cluster-enabled", "yes", "--cluster-config-file", "nodes.conf", "--cluster-node-timeout",
                str(node_timeout_ms)]
        super().__init__(masters * (1 + replicas), *more, *flags, **how)

    def begin(self):
        super().begin()
        for i in range(self.n):
            if i < self.masters:
                self.ask(i, "CLUSTER", "ADDSLOTSRANGE", 16384 * i // self.masters, 16384 * (i + 1) // self.masters - 1)
            self.ask(i, "CLUSTER", "SET-CONFIG-EPOCH", i + 1)
            if i > 0:
                self.ask(i, "CLUSTER", "MEET", self.hosts[0], self.ports[0])
        for i in range(self.masters, self.n):
            master = self.ask(i % self.masters, "CLUSTER MYID")
            _wait(lambda: self.tried(i, "CLUSTER", "REPLICATE", master), "replica %d" % i)
        self.wait_ready()

    def tried(self, i, *words):
        try:
            return self.ask(i, *words) == "OK"
        except Error:
            return False

    def wait_ready(self):
        """All slots are served, everybody knows everybody, replicas follow."""
        for i in range(self.n):
            _wait(lambda: self.is_ready(i), "the Cluster, server %d" % i)

    def is_ready(self, i):
        info, role = self.ask(i, "CLUSTER INFO"), self.ask(i, "ROLE")
        follows = role[3] == "connected" if role[0] == "slave" else len(role[2]) == self.replicas
        return "cluster_state:ok" in info and "cluster_known_nodes:%d\r" % self.n in info and follows

    def owner(self, key, via=None):
        """Number of the server that has a key (bytes) now; asked of server `via`, or the first that lives."""
        via = via if via is not None else next(i for i, p in enumerate(self.processes) if p is not None)
        at = slot(key)
        for begin, end, master, *_ in self.ask(via, "CLUSTER SLOTS"):
            if begin <= at <= end:
                return list(zip(self.hosts, self.ports)).index((master[0], master[1]))
        raise AssertionError("nobody has slot %d" % at)
