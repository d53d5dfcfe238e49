# SPDX-License-Identifier: Apache-2.0
"""Datasets for scenarios of the loader: an item is a number that its bytes begin with.

    data = loads.Data(300, latency="20ms")
    loader = DataLoader(data.open(daemon), batch_size=10)
    assert loads.indices(data, loader) == list(range(300))
"""
import os
import struct

import dl
import dlcache.torch


def head(view):
    return struct.unpack_from("<q", view)[0]


class Data:
    """n files below TEST_DIR/name; shape as of dl.url()."""

    def __init__(self, n, size=1000, name="bucket", **shape):
        if not os.path.exists(dl.path(name)):  # else by the process that started this one
            dl.dataset(name, n, size=size, form="%05d.bin")
        self.url = dl.url(name, **shape)
        self.index = {head(dl.content(i, 8)): i for i in range(n)}
        assert len(self.index) == n

    def open(self, daemon, **how):
        os.environ.update(daemon.env)
        return dlcache.torch.Dataset(self.url, decode=head, **how)

    def indices(self, batch):
        return [self.index[number] for number in batch.tolist()]


def indices(data, batches):
    """What the items of these batches were, in sequence."""
    return [i for batch in batches for i in data.indices(batch)]


def processes():
    """{pid: command} of the living children of this process, and of theirs."""
    found, todo = {}, [os.getpid()]
    while todo:
        for pid in _children(todo.pop()):
            try:
                with open("/proc/%d/cmdline" % pid) as f:
                    found[pid] = f.read().replace("\0", " ")
            except FileNotFoundError:
                continue
            todo.append(pid)
    return found


def gone(pid):
    """The process has ended, whether somebody has asked for its status or not."""
    stat = _read("/proc/%d/stat" % pid)
    return not stat or stat[stat.rindex(")") + 2] == "Z"


def _children(pid):
    try:
        tasks = os.listdir("/proc/%d/task" % pid)
    except FileNotFoundError:
        return []
    return [int(child) for task in tasks for child in _read("/proc/%d/task/%s/children" % (pid, task)).split()]


def _read(path):
    try:
        with open(path) as f:
            return f.read()
    except FileNotFoundError:
        return ""
