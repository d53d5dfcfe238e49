# SPDX-License-Identifier: Apache-2.0
"""The pages of docs/runbooks, executed: what a page tells people to type is typed, on machines as the page has them.

    with runbook.Site() as site:                     m1, gpu1, gpu2, gpu3, and a bucket at http://s3:9000
        site.follow("install.md")                    every block, in order, on the machine that it names
        site.machines["gpu1"].run("dlcache stat")    more commands, in the same shell

A block of `sh` begins with a comment that says where it runs: "# on m1" or "# on gpu1, gpu2". A block that the test cannot run
says "# not tested: " and why; the reasons that count are in NOT_TESTED. Of these, lines of scp are carried out as copies. A
block of `text` is what the block before it printed on standard output. Figures may differ, except in a block of
`text exact`; "..." stands for any lines.

A machine has a network, file systems, processes and a host name of its own (namespaces): pages name the real paths, and the
test sees neither those of this machine nor those of other tests. Its /etc is a copy with what the package brings; /run,
/var/lib and /var/log are empty. One shell stays for the whole page, so variables and the directory last. It ends, and with it
everything on the machine, when a command fails ("set -e") or the test is over.
"""
import base64
import os
import re
import shlex
import subprocess

import dl
import faulty
import hosts
import nodes

ROOT = os.environ["TEST_ROOT"]
BLOCK = re.compile(r"^```(\w+)( exact)?\n(.*?)^```$", re.M | re.S)
NOT_TESTED = ("needs systemd", "needs ssh", "needs the package", "needs two releases")
NAMES = ("s3", "m1", "gpu1", "gpu2", "gpu3")
SETUP = r"""
mkdir -p "$1/etc" && cp -a /etc/. "$1/etc" && mount --bind "$1/etc" /etc
for place in /run /var/lib /var/log; do mount -t tmpfs none $place; done
hostname "$2" && cat "$3" >>/etc/hosts
id _dlcache >/dev/null 2>&1 || useradd --system --no-create-home --home-dir /var/lib/dlcache --shell /usr/sbin/nologin _dlcache
mkdir -p /etc/dlcache /etc/logrotate.d /var/lib/logrotate "$1/home" && cp "$4"/debian/etc/*.conf /etc/dlcache/
cp "$4/deploy/logrotate/dlcache" /etc/logrotate.d/ && cd "$1/home" && export HOME="$PWD" USER=root
exec bash --noprofile --norc -s
"""


class Block:
    def __init__(self, page, line, script):
        self.at, self.script, self.shown, self.exact = "%s:%d" % (page, line), script, None, False
        first = script.splitlines()[0]
        self.untested = first.startswith("# not tested: ")
        if self.untested:
            assert first[14:].startswith(NOT_TESTED), "%s: %r is none of the reasons %r" % (self.at, first, NOT_TESTED)
        on = re.match(r"# on ([\w, ]+)", first)
        assert self.untested or on, "%s: a block begins with '# on MACHINE', or with '# not tested: REASON'" % self.at
        self.machines = re.split(r", ?", on[1]) if on else []


def blocks(page):
    """Of docs/runbooks/PAGE: [Block]."""
    with open(os.path.join(ROOT, "docs/runbooks", page)) as f:
        text = f.read()
    found = []
    for m in BLOCK.finditer(text):
        if m[1] == "sh":
            found.append(Block(page, text.count("\n", 0, m.start()) + 1, m[3]))
        elif m[1] == "text":
            assert found and found[-1].shown is None and not found[-1].untested, "%s: output of nothing: %s" % (page, m[3])
            found[-1].shown, found[-1].exact = m[3], bool(m[2])
    assert found, "%s has nothing to run" % page
    return found


def shape(text):
    """Lines without what differs from run to run: figures, times, and the widths of columns."""
    text = re.sub(r"\d{4}-\d\d-\d\dT[\d:.]+Z", "TIME", text)
    text = re.sub(r"\b[0-9a-f]{8,}\b", "HEX", text)
    text = re.sub(r"\d[\d,.]*", "N", text)
    text = re.sub(r"\bN [kMG]?B\b", "N bytes", text)
    text = re.sub(r"\bN (us|ms|s|min|h)\b", "N time", text)
    return [" ".join(line.split()) for line in text.strip().splitlines()]


def same(shown, got):
    pattern = "".join(r"(?:.*\n)*?" if line == "..." else re.escape(line) + "\n" for line in shape(shown))
    return re.fullmatch(pattern, "".join(line + "\n" for line in shape(got))) is not None


class Machine:
    def __init__(self, host, known, env):
        self.name, self.dir, self.count = host.name, dl.path(host.name), 0
        os.mkdir(self.dir)
        path = os.path.dirname(dl.PROGRAM) + ":" + os.environ["PATH"]
        with open(os.path.join(self.dir, "shell.err"), "wb") as err:
            self.shell = subprocess.Popen(
                host.command(["unshare", "--mount", "--pid", "--fork", "--kill-child", "--mount-proc", "--uts", "--ipc", "bash",
                              "-ec", SETUP, "setup", self.dir, host.name, known, ROOT]),
                stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=err, text=True, env=dict(os.environ, PATH=path, **env))

    def run(self, script, status=0):
        """Its standard output; fails the test unless it ends with `status` (a failed command of the script ends the machine)."""
        self.count += 1
        name = os.path.join(self.dir, "%03d" % self.count)
        with open(name + ".sh", "w") as f:
            f.write(("set -eu\n" if status == 0 else "set +e\n") + script)
        self.shell.stdin.write(". {0}.sh >{0}.out 2>{0}.err </dev/null; echo $?\n".format(name))
        self.shell.stdin.flush()
        got = self.shell.stdout.readline().strip()
        texts = []
        for end in (".out", ".err"):
            if os.path.exists(name + end):
                with open(name + end, errors="replace") as f:
                    texts.append(dl.hide_nothing(f.read()))
        assert got == str(status), "%s: status %s of\n%s\n%s" % (self.name, got or "of a failed command", script, "\n".join(texts))
        return texts[0]

    def read(self, path):
        return base64.b64decode(self.run("base64 -w0 " + path))

    def write(self, path, data):
        self.run("umask 077; base64 -d >%s <<<%s" % (path, base64.b64encode(data).decode()))

    def end(self):
        """As if somebody pulled the plug."""
        if self.shell is not None:
            self.shell.kill()
            self.shell.wait()
            self.shell.stdin.close()
            self.shell.stdout.close()
            self.shell = None


class Site:
    def __init__(self):
        self.net = hosts.Net()
        self.machines = {}

    def __enter__(self):
        places = [self.net.host(name) for name in NAMES]
        known = dl.path("hosts")
        with open(known, "w") as f:
            f.write("".join("%s %s\n" % (h.address, h.name) for h in places))
        with places[0].inside():
            self.bucket = nodes.Bucket(port=9000, address=places[0].address)
        self.files = {"train/%04d.bin" % i: dl.content(i, 20000) for i in range(100)}
        for key, data in self.files.items():
            self.bucket.put(key, data)
        self.bucket.put("val/0.bin", faulty.Pattern(1000))
        for i in range(30):  # more than the disks hold; nobody reads it
            self.bucket.put("large/%02d.bin" % i, faulty.Pattern(100_000_000))
        self.keys = {"AWS_ACCESS_KEY_ID": self.bucket.KEY_ID, "AWS_SECRET_ACCESS_KEY": self.bucket.SECRET}
        for host in places[1:]:
            self.machines[host.name] = Machine(host, known, self.keys if host.name == "m1" else {})
        return self

    def __exit__(self, kind, *rest):
        for machine in self.machines.values():
            machine.end()
        self.bucket.__exit__(kind, *rest)
        self.net.close()

    def follow(self, page):
        for block in blocks(page):
            if block.untested:
                self.copy(block)
                continue
            for name in block.machines:
                got = self.machines[name].run(block.script)
                print("%s on %s\n%s" % (block.at, name, got))
                if block.shown is not None:
                    alike = got == block.shown if block.exact else same(block.shown, got)
                    assert alike, "%s shows\n%s\nbut %s printed\n%s" % (block.at, block.shown, name, got)

    def copy(self, block):
        """scp FILE... MACHINE:DIR/ or [MACHINE:]FILE; the block says "needs ssh", and from where."""
        for line in block.script.splitlines():
            if not line.startswith("scp "):
                continue
            *files, target = shlex.split(line)[1:]
            to, place = target.split(":")
            source = re.search(r"on (\w+)", block.script.splitlines()[0])[1]
            for path in files:
                end = place + os.path.basename(path) if place.endswith("/") else place
                self.machines[to].write(end, self.machines[source].read(path))
