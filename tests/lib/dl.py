# SPDX-License-Identifier: Apache-2.0
"""What scenarios are written with.

    import dl

    files = dl.dataset("bucket", 100)                     100 files below TEST_DIR/bucket
    with dl.Daemon("--memory", "64MB") as d:
        out = d.cli("ls", dl.url("bucket")).out           fails the test unless the exit status is 0
        d.cli("cat", "s3://no/such", status=1)            ... unless it is 1
        dl.wait_for(lambda: d.counter("mem_fills") == 100)

Everything is below TEST_DIR. Whatever a program prints is searched for the secrets of the test.
"""
import hashlib
import json
import os
import signal
import subprocess
import sys
import time

import faulty
import s3server
from hosts_local import HERE
from s3server import Skip  # noqa: F401  (for scenarios)

DIR = os.environ.get("TEST_DIR") or sys.exit("run me by tests/run")
PROGRAM = os.environ["DLCACHE_PROGRAM"]
BUILD = os.environ["DLCACHE_BUILD"]
SECRETS = {faulty.S3.SECRET, s3server.Real.SECRET}


def option(name):
    """Of the build."""
    with open(os.path.join(BUILD, "meson-info/intro-buildoptions.json")) as f:
        return next(o["value"] for o in json.load(f) if o["name"] == name)


def sanitized():
    return option("b_sanitize") != "none"


def has_loader():
    with open(os.path.join(BUILD, "features.json")) as f:
        return json.load(f)["native loader"]


def needs_loader():
    if not has_loader():
        raise Skip("built without the loader")


SLOW = 5 if sanitized() else 1  # sanitizers take time


def path(*parts):
    return os.path.join(DIR, *parts)


def url(directory, **shape):
    """file:// URL of a directory below TEST_DIR; url("b", latency="30ms") gives it a shape."""
    query = "&".join("%s=%s" % p for p in shape.items())
    return "file://" + path(directory) + "/" + ("?" + query if query else "")


def content(n, size, seed=0):
    """The bytes of file n of a dataset."""
    return hashlib.shake_128(b"%d %d" % (seed, n)).digest(size)


def dataset(directory, n, size=1000, seed=0, form="%02d/%05d.bin"):
    """n files of `size` bytes (or size(i)); returns {key: bytes}, in the order of the keys."""
    files = {}
    for i in range(n):
        key = form % (i % 10, i) if form.count("%") == 2 else form % i
        files[key] = content(i, size(i) if callable(size) else size, seed)
        name = path(directory, key)
        os.makedirs(os.path.dirname(name), exist_ok=True)
        with open(name, "wb") as f:
            f.write(files[key])
    os.makedirs(path(directory), exist_ok=True)
    return dict(sorted(files.items()))


def wait_for(condition, timeout=20, what="the condition", step=0.01):
    """Until condition() is true; its value. The only way to wait in a test. `step` is for conditions that cost."""
    end = time.monotonic() + timeout * SLOW
    while True:
        value = condition()
        if value:
            return value
        if time.monotonic() > end:
            raise AssertionError("%s did not come true in %d s" % (what, timeout * SLOW))
        time.sleep(step)


def hide_nothing(text):
    """Fails the test when a secret is in the text; returns the text."""
    for secret in SECRETS:
        if secret in text:
            raise AssertionError("a secret was printed: ..." + text[max(0, text.index(secret) - 60):][:60])
    return text


class Result:
    def __init__(self, argv, status, out, err):
        self.argv, self.status, self.raw = argv, status, out
        self.out = hide_nothing(out.decode(errors="surrogateescape"))
        self.err = hide_nothing(err.decode(errors="replace"))

    def json(self):
        return json.loads(self.out)


def run(*argv, status=0, env=None, timeout=60, stdin=b""):
    """Run a program to its end; fails the test unless its exit status is `status` (None: any)."""
    done = subprocess.run([str(a) for a in argv], env=dict(os.environ, **(env or {})), capture_output=True,
                          timeout=timeout * SLOW, input=stdin)
    result = Result(argv, done.returncode, done.stdout, done.stderr)
    if status is not None and done.returncode != status:
        raise AssertionError("%s: exit status %d, not %d\n%s%s" % (" ".join(map(str, argv)), done.returncode, status,
                                                                   result.out[-2000:], result.err[-2000:]))
    return result


def cli(*args, **how):
    return run(PROGRAM, *args, **how)


class Daemon:
    """A daemon with a directory and a socket of its own. `env` reaches the daemon and its commands, which run on
    its host."""

    def __init__(self, *flags, name="d", env=None, dir=None, host=HERE):
        self.flags, self.host = [str(f) for f in flags], host
        self.dir = dir or path(name)
        self.socket = path(name + ".sock")
        self.log_path = path(name + ".log")
        self.env = dict(env or {}, DLCACHE_SOCKET=self.socket, DLCACHE_DIR=self.dir)
        self.process = None

    def command(self):
        return [PROGRAM, "serve", *self.flags]

    def start(self):
        with open(self.log_path, "ab") as log:
            self.process = subprocess.Popen(self.host.command(self.command()), env=dict(os.environ, **self.env),
                                            stdin=subprocess.DEVNULL, stdout=log, stderr=log)
        wait_for(lambda: self.process.poll() is not None or self.answers(), what="a daemon that answers")
        if self.process.poll() is not None:
            raise AssertionError("the daemon ended with status %d:\n%s" % (self.process.returncode, self.log()))
        return self

    def answers(self):
        return os.path.exists(self.socket) and self.cli("stat", "--json", status=None).status == 0

    def settled(self):
        """Until its control plane is open too: that opens behind everything else. Returns self."""
        wait_for(lambda: self.stat().get("cluster", {"view": 1})["view"] > 0, what="a control plane inside")
        return self

    def stop(self, status=0):
        """In good order; fails the test when it does not end so."""
        if self.process is None:
            return
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
        got = self.process.wait(30 * SLOW)
        self.process = None
        self.log()
        if got != status:
            raise AssertionError("the daemon ended with status %d:\n%s" % (got, self.log()))

    def kill(self):
        """SIGKILL, as the kernel does when memory is short."""
        self.process.kill()
        self.process.wait()
        self.process = None

    def __enter__(self):
        return self.start()

    def __exit__(self, kind, *rest):
        if kind is None:
            self.stop()
        elif self.process is not None:
            self.kill()
            sys.stderr.write("-- log of the daemon:\n" + self.log()[-4000:])

    def log(self):
        with open(self.log_path, errors="replace") as f:
            return hide_nothing(f.read())

    def cli(self, *args, env=None, **how):
        return run(*self.host.command([PROGRAM, *args]), env=dict(self.env, **(env or {})), **how)

    def stat(self):
        return self.cli("stat", "--json").json()

    def counters(self):
        return self.stat()["counters"]

    def counter(self, name):
        return self.counters()[name]
