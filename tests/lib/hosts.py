# SPDX-License-Identifier: Apache-2.0
"""Hosts with addresses and links of their own: network namespaces of this machine.

    with hosts.Net() as net:                skips the test where namespaces cannot be had (not root, no ip)
        a = net.host("a")                   made when it is first named; a.address "10.77.0.1"
        dl.run(*a.command(["dlcache"]))     a program on that host
        with a.inside():                    sockets that are made within are of that host
            socket.create_server((a.address, 0))
        net.cut("a", "m")                   what the two send each other is lost without a word, on open connections too
        net.heal("a", "m")
        net.down("a"), net.up("a")          a's cable is pulled, and put back
        a.traffic()                         bytes (received, sent) so far, with headers

    with hosts.Cluster(3) as c:             as nodes.Cluster, but the bucket is the host "s3", the manager "m" (then "m2",
        c.net.cut("a", "b")                 ...), each node a host of its name; readers run on the host of their node
    with redisd.One(places=[net.host("r")]) as r: ...

A namespace lives as long as a descriptor of this process or a process inside it: all is gone when the test ends,
however it ends. The switch between the hosts is in a namespace too, so nothing leads in or out, and all tests can
have the same addresses. Unix sockets go through the file system and are reached from everywhere.
"""
import contextlib
import ctypes
import os
import shutil
import subprocess

import dl
import nodes

CLONE_NEWNET = 0x40000000
OWN = "/proc/thread-self/ns/net"
NOBODY = "02:00:00:00:00:00"  # a hardware address that no host has
libc = ctypes.CDLL(None, use_errno=True)


def call(function, *args):
    if function(*args) != 0:
        number = ctypes.get_errno()
        raise OSError(number, "%s: %s" % (function.__name__, os.strerror(number)))


@contextlib.contextmanager
def coming_back():
    """This thread is in the namespace where it was when the block ends."""
    home = os.open(OWN, os.O_RDONLY)
    try:
        yield
    finally:
        call(libc.setns, home, CLONE_NEWNET)
        os.close(home)


class Space:
    """A network namespace without a name."""

    def __init__(self):
        with coming_back():
            call(libc.unshare, CLONE_NEWNET)
            self.fd = os.open(OWN, os.O_RDONLY)
        self.path = "/proc/%d/fd/%d" % (os.getpid(), self.fd)

    def close(self):
        os.close(self.fd)

    @contextlib.contextmanager
    def inside(self):
        with coming_back():
            call(libc.setns, self.fd, CLONE_NEWNET)
            yield

    def command(self, argv):
        """Not `ip netns exec`: that hides /sys, and with it the limits of the cgroup."""
        return ["nsenter", "--net=" + self.path, *map(str, argv)]

    def ip(self, *lines):
        with self.inside():
            done = subprocess.run(["ip", "-batch", "-"], input="\n".join(lines), capture_output=True, text=True)
        if done.returncode != 0:
            raise AssertionError("ip: %s\n%s" % (done.stderr.strip(), "\n".join(lines)))


class Host(Space):
    def __init__(self, name, number):
        super().__init__()
        self.name, self.port = name, "p%d" % number
        self.address, self.mac = "10.77.0.%d" % number, "02:00:00:00:00:%02x" % number

    def traffic(self):
        """Bytes (received, sent) so far, with all headers."""
        with self.inside(), open("/proc/thread-self/net/dev") as f:
            fields = next(line for line in f if line.lstrip().startswith("eth0:")).split(":")[1].split()
        return int(fields[0]), int(fields[8])


class Net:
    def __init__(self):
        for program in ("ip", "nsenter"):
            if not shutil.which(program):
                raise dl.Skip("%s is absent (iproute2, util-linux)" % program)
        try:
            self.switch = Space()
            self.switch.ip("link add br0 type bridge", "link set br0 up")
        except (OSError, AssertionError) as e:
            raise dl.Skip("hosts of their own need root and network namespaces: %s" % e) from None
        self.hosts = {}

    def host(self, name):
        if name not in self.hosts:
            self.hosts[name] = self.make(name)
        return self.hosts[name]

    def make(self, name):
        h = Host(name, len(self.hosts) + 1)
        self.switch.ip("link add %s type veth peer name eth0 address %s netns %s" % (h.port, h.mac, h.path),
                       "link set %s master br0 up" % h.port)
        h.ip("link set lo up", "addr add %s/24 dev eth0" % h.address, "link set eth0 up")
        return h

    def neighbours(self, a, b, mac_of):
        for x, y in ((self.hosts[a], self.hosts[b]), (self.hosts[b], self.hosts[a])):
            x.ip("neigh replace %s lladdr %s nud permanent dev eth0" % (y.address, mac_of(y)))

    def cut(self, a, b):
        self.neighbours(a, b, lambda host: NOBODY)

    def heal(self, a, b):
        self.neighbours(a, b, lambda host: host.mac)

    def down(self, name):
        self.switch.ip("link set %s down" % self.hosts[name].port)

    def up(self, name):
        self.switch.ip("link set %s up" % self.hosts[name].port)

    def close(self):
        for space in (*self.hosts.values(), self.switch):
            space.close()
        self.hosts = {}

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()


class Cluster(nodes.Cluster):
    def __init__(self, n, *flags, **how):
        self.net = Net()
        super().__init__(n, *flags, **how)

    def place(self, name):
        return self.net.host(name)

    def __exit__(self, kind, *rest):
        with self.net:
            return super().__exit__(kind, *rest)
