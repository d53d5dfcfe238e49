# SPDX-License-Identifier: Apache-2.0
"""A job that reads one epoch in steps, while things go wrong around it.

    jobs = job.start(c, "train", files)      a process on each node of a cluster, each in an order of its own
    job.go(jobs, 100)                        100 more samples of each, at the same time
    ...                                      something dies
    job.end(jobs, stall=4)                   the rest: each sample came exactly once with the right bytes, and nobody
                                             waited longer for one than so many seconds
    job.few(c, 400)                          of 400 objects hardly one was read twice
"""
import hashlib

import dl
import nodes


class Job(nodes.Reader):
    PROGRAM = r'''
import hashlib, json, sys, time
import libdlc

def steps(ds, n, pace):
    """Up to n samples of the epoch, each with its digest; the longest wait for one; what one failed with, and where."""
    got, longest, fault = [], 0.0, None
    while n is None or len(got) < n:
        at, begin = ds.tell()[1], time.monotonic()
        try:
            one = ds.next()
        except libdlc.Error as e:
            fault = {"code": e.code, "text": str(e), "at": at}
            break
        longest = max(longest, time.monotonic() - begin)
        if one is None:
            break
        with one[1] as view:
            got.append((one[0], hashlib.sha256(view.memory()).hexdigest()))
        if pace:
            time.sleep(pace)
    return {"got": got, "longest": longest, "fault": fault}

for line in sys.stdin:
    ask = json.loads(line)
    try:
        if ask["op"] == "open":
            ds = libdlc.Dataset(ask["url"], spawn=False)
            out = len(ds)
        elif ask["op"] == "follow":
            ds.follow(**ask["how"])
            out = ds.epoch_length()
        else:
            out = steps(ds, ask["n"], ask["pace"])
        answer = {"ok": out}
    except libdlc.Error as e:
        answer = {"code": e.code, "error": str(e)}
    print(json.dumps(answer), flush=True)
'''

    def __init__(self, cluster, node, name, files, seed=0, pace=0):
        super().__init__(node, "dlcache://" + name, cluster.ann)
        cluster.readers.append(self)
        self.want = list(enumerate(hashlib.sha256(f).hexdigest() for f in files))
        self.seed, self.pace = seed, pace
        self.begin()

    def begin(self, position=0):
        """Read from here on; a new epoch unless it goes on where one failed."""
        if position == 0:
            self.got, self.longest = [], 0.0
        self.follow(kind=1, seed=self.seed, epochs=1, position=position)

    def step(self, n=None):
        self.send("steps", n=n, pace=self.pace)

    def stepped(self):
        """What the steps came to: None, or {code, text, at} of the sample that failed."""
        out = self.answer()
        self.got += [tuple(x) for x in out["got"]]
        self.longest = max(self.longest, out["longest"])
        return out["fault"]

    def faults(self):
        """(lost, repeated, wrong) of the epoch: how many samples."""
        seen = [i for i, _ in self.got]
        return len(self.want) - len(set(seen)), len(seen) - len(set(seen)), len(set(self.got) - set(self.want))


def start(cluster, name, files, on=None, **how):
    """One on each node (or on those of these numbers), with seeds of their own."""
    on = range(len(cluster.nodes)) if on is None else on
    return [Job(cluster, cluster.nodes[k], name, files, seed=k, **how) for k in on]


def send(jobs, n=None):
    for j in jobs:
        j.step(n)


def take(jobs):
    for fault in [j.stepped() for j in jobs]:
        assert fault is None, fault


def go(jobs, n=None):
    send(jobs, n)
    take(jobs)


def few(cluster, n):
    """Peers were asked in vain, and objects read again, for at most one sample in 20 of n: where many tests run at once a
    healthy peer may miss its deadline."""
    misses, gets = sum(x.counter("peer_misses") for x in cluster.nodes), sum(cluster.server.gets().values())
    assert len(cluster.server.gets()) == n, len(cluster.server.gets())
    assert misses <= len(cluster.nodes) * n / 20 and gets <= n + n / 20, (misses, gets)


def end(jobs, stall):
    go(jobs)
    for j in jobs:
        assert sorted(j.got) == j.want, "lost, repeated, wrong: %d, %d, %d" % j.faults()
    longest = [round(j.longest, 3) for j in jobs]
    print("longest waits:", longest)
    assert max(longest) < stall * dl.SLOW, longest
