# SPDX-License-Identifier: Apache-2.0
"""Ranks of a job that learn weights, on the nodes of a cluster (tests/lib/nodes.py).

    a, b = weighers.ranks(c, "run")          a rank on each node: readers whose weights are the losses themselves
    weighers.learn(a, 0, {3: 1.5, 7: 2.0})
    weighers.knows(b, {3: 1.5, 7: 2.0})      waits until these, and no others, are what it knows
"""
import struct

import dl


def f32(x):
    return struct.unpack("<f", struct.pack("<f", x))[0]


def rank(c, node, job, name="train", token="ann", **spec):
    r = c.reader(node, name, token, env={"DLCACHE_JOB": job} if job else None)
    r.importance(**dict({"rule": 1}, **spec))
    return r


def ranks(c, job, name="train", token="ann", seed=7):
    return [rank(c, k, job, name, token, rank=k, world=len(c.nodes), seed=seed) for k in range(len(c.nodes))]


def learn(r, epoch, weights):
    assert r.learn(epoch, list(weights), list(weights.values()))[:2] == [len(weights), 0]


def known(r):
    return {i: w for i, w in enumerate(r.weights()) if w > 0}


def knows(r, weights):
    want = {i: f32(w) for i, w in weights.items()}
    dl.wait_for(lambda: known(r) == want, what="weights that were learnt elsewhere")
