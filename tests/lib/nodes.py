# SPDX-License-Identifier: Apache-2.0
"""Clusters for scenarios: a real manager, real nodes, all on loopback (hosts.Cluster: each on a host of its own).

    with nodes.Cluster(3, memory="8MB") as c:
        files = c.shared("train", 100)                         a dataset of the tenant ann: its samples' bytes
        got = c.reader(0, "train").read(range(100))            [(sample, bytes)], through the first node
        c.server.gets()                                        {key: GETs} of the bucket

Readers are processes of their own, so that each has the node's socket and a token in its environment.
"""
import base64
import contextlib
import json
import os
import shutil
import subprocess
import sys
import zlib

import dl
import faulty
import manager
from hosts_local import HERE

NAMES = ("a", "b", "c", "d", "e", "f")
# Buckets of tenants are on loopback, or on a host of hosts.Net: not public, so they must be allowed.
NETWORKS = ("--tenant-networks", "127.0.0.0/8,10.77.0.0/24")
AWAY = -8  # DLC_EBUCKET: what a client is told when the manager cannot be asked


class Node(dl.Daemon):
    """As dl.Daemon, by `dlcache node`."""

    def __init__(self, cluster, name, *flags, env=None, host=HERE):
        super().__init__(*flags, name=name, env=env, host=host)
        self.cluster, self.name, self.door = cluster, name, None

    def command(self):
        return [dl.PROGRAM, "node", "--name", self.name, "--listen", self.host.address + ":0", "--log-level",
                "info", "--manager", self.cluster.addresses(), "--token-file", self.cluster.node_token, *self.flags]

    def cli(self, *args, env=None, **how):
        """Its administrator has the token of nodes, unless `env` says otherwise."""
        if args[0] in ("stat", "evict", "stop") and "DLCACHE_TOKEN" not in (env or {}):
            env = dict(env or {}, DLCACHE_TOKEN_FILE=self.cluster.node_token)
        return super().cli(*args, env=env, **how)

    def view(self):
        """(version, live nodes) as the node knows them."""
        c = self.stat()["cluster"]
        return c["view"], c["nodes"]

    def of(self, name):
        """Its figures of a dataset, or None."""
        return next((d for d in self.stat()["datasets"] if d.get("name") == name), None)


class Reader:
    """A process that opens a dataset at a node and does what it is told, a line of JSON at a time."""

    PROGRAM = r'''
import base64, json, os, sys
import libdlc
for line in sys.stdin:
    ask = json.loads(line)
    try:
        if ask["op"] == "open":
            ds = libdlc.Dataset(ask["url"], spawn=False, timeout_ms=ask.get("timeout_ms", 0), token=ask.get("token"),
                                snapshot=ask.get("snapshot", 0), refresh=ask.get("refresh", False))
            out = len(ds)
        elif ask["op"] == "read":
            out = [(i, base64.b64encode(ds.read(i)).decode()) for i in ask["samples"]]
        elif ask["op"] == "follow":
            ds.follow(**ask["how"]); out = ds.epoch_length()
        elif ask["op"] == "epoch":
            out = [(i, base64.b64encode(b).decode()) for i, b in ds.epoch(ask.get("n"))]
        elif ask["op"] == "importance":
            ds.importance(**ask["how"]); out = None
        elif ask["op"] == "learn":
            out = ds.learn(ask["epoch"], ask["samples"], ask["losses"])
        elif ask["op"] == "draw":
            out = ds.draw(ask["epoch"])[0]
        elif ask["op"] == "weights":
            out = ds.weights()
        elif ask["op"] == "set_weights":
            ds.set_weights(ask["weights"]); out = None
        elif ask["op"] == "keys":
            out = ds.keys()
        elif ask["op"] == "snapshot":
            out = ds.snapshot
        elif ask["op"] == "stats":
            out = ds.stats()
        elif ask["op"] == "close":
            ds.close(); out = None
        answer = {"ok": out}
    except libdlc.Error as e:
        answer = {"code": e.code, "error": str(e)}
    print(json.dumps(answer), flush=True)
'''

    def __init__(self, node, url, token=None, env=None, timeout_ms=0, snapshot=0, refresh=False):
        self.process = subprocess.Popen(
            node.host.command([sys.executable, "-c", self.PROGRAM]), stdin=subprocess.PIPE, stdout=subprocess.PIPE,
            text=True, env=dict(os.environ, **dict(node.env, **({"DLCACHE_TOKEN": token} if token else {})), **(env or {})))
        try:
            self.ask("open", url=url, timeout_ms=timeout_ms, snapshot=snapshot, refresh=refresh)
        except Refused:
            self.close()
            raise

    def send(self, op, **more):
        self.process.stdin.write(json.dumps(dict(more, op=op)) + "\n")
        self.process.stdin.flush()

    def answer(self):
        line = self.process.stdout.readline()
        if not line:
            raise AssertionError("the reader ended with status %s" % self.process.wait(10))
        got = json.loads(line)
        if "error" in got:
            raise Refused(got["code"], dl.hide_nothing(got["error"]))
        return got["ok"]

    def ask(self, op, **more):
        self.send(op, **more)
        return self.answer()

    def samples(self, got):
        return [(i, base64.b64decode(b)) for i, b in got]

    def read(self, samples):
        return self.samples(self.ask("read", samples=list(samples)))

    def follow(self, **how):
        return self.ask("follow", how=how)

    def epoch(self, n=None):
        return self.samples(self.ask("epoch", n=n))

    def importance(self, **how):
        self.ask("importance", how=how)

    def learn(self, epoch, samples, losses):
        return self.ask("learn", epoch=epoch, samples=samples, losses=losses)

    def draw(self, epoch):
        return self.ask("draw", epoch=epoch)

    def weights(self):
        return self.ask("weights")

    def set_weights(self, weights):
        self.ask("set_weights", weights=weights)

    def close(self):
        if self.process is not None:
            self.process.stdin.close()
            self.process.wait(20 * dl.SLOW)
            self.process.stdout.close()
            self.process = None


class Refused(Exception):
    def __init__(self, code, text):
        super().__init__(text)
        self.code = code


class Bucket(faulty.S3):
    """An S3 that counts: GETs of each key, of those that were answered with data."""

    def gets(self):
        count = {}
        for r in self.requests:
            if r.op == "get" and r.status in (200, 206):
                count[r.key] = count.get(r.key, 0) + 1
        return count


class Cluster:
    """managers: how many; several need the URL of a store that they share. certificate: managers speak TLS with it."""

    def __init__(self, n, *flags, memory="64MB", disk="0", manager_flags=("--node-ttl", "2s"), env=None, managers=1,
                 store=None, certificate=None):
        self.managers = [manager.Manager(*NETWORKS, *manager_flags, name=name, store=store, host=self.place(name),
                                         certificate=certificate)
                         for name in ("m", "m2", "m3")[:managers]]
        if certificate:
            flags = ("--manager-ca", certificate, *flags)
        self.manager = self.managers[0]
        self.flags, self.env = ["--memory", memory, "--disk", disk, "--no-hedge", *NETWORKS, *flags], dict(env or {})
        self.n, self.nodes, self.readers = n, [], []
        self.node_token = dl.path("m/node.token")
        self.stack = contextlib.ExitStack()

    def place(self, name):
        """Where the bucket ("s3"), a manager or a node runs."""
        return HERE

    def bucket(self):
        host = self.place("s3")
        with host.inside():
            return Bucket(address=host.address)

    def __enter__(self):
        with contextlib.ExitStack() as stack:
            self.server = stack.enter_context(self.bucket())
            for m in self.managers:
                if m is not self.manager:  # the same tokens, the same key
                    shutil.copytree(self.manager.dir, m.dir, ignore=shutil.ignore_patterns("manager.[!k]*"))
                stack.enter_context(m)
            dl.SECRETS.update((self.manager.token("node"), self.manager.token("admin")))
            self.ann = self.manager.tenant("ann")
            for name in NAMES[:self.n]:
                self.add(name)
            if self.n:
                self.settle()
            self.stack = stack.pop_all()
        return self

    def __exit__(self, kind, *rest):
        for r in self.readers:
            r.close()
        for node in self.nodes:
            node.__exit__(kind, *rest)
        return self.stack.__exit__(kind, *rest)

    def addresses(self):
        return ",".join(("https://" if m.certificate else "http://") + m.address for m in self.managers)

    def add(self, name, *flags):
        node = Node(self, name, *self.flags, *flags, env=self.env, host=self.place(name))
        self.nodes.append(node)
        node.start()
        return node

    def settle(self, live=None):
        """Until all nodes have one view, with so many in it."""
        live = len(self.nodes) if live is None else live

        def same():
            views = {n.view() for n in self.nodes if n.process is not None}
            return len(views) == 1 and next(iter(views))[1] == live
        dl.wait_for(same, what="one view with %d nodes" % live)

    def put(self, prefix, n, size=20000):
        """n objects in the bucket of the test: {key: bytes}, in the order of the keys."""
        files = {"%s/%04d.bin" % (prefix, i): dl.content(i, size, seed=zlib.crc32(prefix.encode())) for i in range(n)}
        for key, data in files.items():
            self.server.put(key, data)
        return files

    def register(self, name, url, token=None, **more):
        self.manager.ok("POST", "/v1/datasets", dict({"name": name, "url": url, "endpoint": self.server.endpoint}, **more),
                        token=token or self.ann)
        return "dlcache://" + name

    def credentials(self, tenant, token, server=None):
        s = server or self.server
        self.manager.ok("PUT", "/v1/tenants/%s/credentials" % tenant,
                        {"access_key": s.KEY_ID, "secret_key": s.SECRET, "region": s.region}, token=token)

    def shared(self, name, n, size=20000):
        """A dataset of ann's with n objects: its files, in the order of its samples."""
        files = self.put(name, n, size)
        self.credentials("ann", self.ann)
        self.register(name, "s3://data/%s/" % name)
        return list(files.values())

    def ticket(self, dataset, token=None):
        """As another node would get it for itself, which has joined for that and is not there any more."""
        who = {"node": "visitor", "instance": "f" * 32}
        self.manager.ok("PUT", "/v1/nodes/visitor", {"address": "", "capacity": 1, "instance": who["instance"]}, token="node")
        got = self.manager.ok("POST", "/v1/resolve", dict(who, dataset=dataset, token=token or self.ann), token="node",
                              secret=True).json["ticket"]
        self.manager.ok("DELETE", "/v1/nodes/visitor?instance=" + who["instance"], token="node")
        return got

    def reader(self, node, name, token="ann", **how):
        token = self.ann if token == "ann" else token
        r = Reader(self.nodes[node], name if "://" in name else "dlcache://" + name, token, **how)
        self.readers.append(r)
        return r
