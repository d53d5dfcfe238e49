# SPDX-License-Identifier: Apache-2.0
"""Drives BUILD/tests/k8s/kube-probe, which is src/operator's client of Kubernetes and nothing else.

    with kubeprobe.Probe("--kubeconfig", c.kubeconfig) as p:
        p.ok("apply", kind="ConfigMap", ns="default", name="x", body={...})    its "out"; fails the test on errors
        p.call("get", kind="Pod", ns="default", name="x")["rc"]                "ENOTFOUND"
        p.ok("watch", kind="ConfigMap")
        p.wait(lambda: "default/x" in p.ok("cached", kind="ConfigMap"))
        p.changes()                                                            [("new", "ConfigMap/default/x"), ...]
"""
import json
import os
import queue
import subprocess
import sys
import threading

import dl
from hosts_local import HERE

STATUS, FORCE, DRY_RUN = 1, 2, 4
PROGRAM = os.path.join(dl.BUILD, "tests/k8s/kube-probe")
if not os.access(PROGRAM, os.X_OK):
    raise dl.Skip("built without the operator")  # before a cluster is started for nothing


class Probe:
    def __init__(self, *flags, name="probe", env=None, host=HERE):
        self.argv, self.env = host.command([PROGRAM, *flags]), env or {}
        self.log_path, self.answers, self.said = dl.path(name + ".log"), queue.Queue(), []

    def __enter__(self):
        with open(self.log_path, "ab") as log:
            self.process = subprocess.Popen(self.argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=log,
                                            env=dict(os.environ, **self.env), text=True)
        self.reader = threading.Thread(target=self.read, daemon=True)
        self.reader.start()
        return self

    def read(self):
        for line in self.process.stdout:
            said = json.loads(line)
            if "answer" in said:
                self.answers.put(said)
            else:
                self.said.append(said)
        self.answers.put(None)

    def call(self, op, **how):
        self.process.stdin.write(json.dumps(dict(how, op=op)) + "\n")
        self.process.stdin.flush()
        answer = self.answers.get(timeout=60 * dl.SLOW)
        if answer is None:
            raise AssertionError("kube-probe ended:\n" + self.log()[-3000:])
        assert answer["answer"] == op, answer
        return answer

    def ok(self, op, **how):
        answer = self.call(op, **how)
        assert answer["rc"] == "", (op, how, answer)
        return answer["out"]

    def refused(self, rc, op, **how):
        answer = self.call(op, **how)
        assert answer["rc"] == rc, (op, how, answer)
        return answer

    def cached(self, kind):
        return self.ok("cached", kind=kind)

    def watched(self, kind):
        return self.ok("watched", kind=kind)

    def changes(self):
        return [(s["change"], s["key"]) for s in list(self.said) if "change" in s]

    def log(self):
        with open(self.log_path, errors="replace") as f:
            return f.read()

    def __exit__(self, kind, *_):
        if kind is not None:
            self.process.kill()
        self.process.stdin.close()
        status = self.process.wait(60 * dl.SLOW)
        self.reader.join()
        self.process.stdout.close()
        if kind is not None:
            sys.stderr.write("-- log of kube-probe:\n" + self.log()[-3000:])
        elif status != 0:
            raise AssertionError("kube-probe ended with %d:\n%s" % (status, self.log()[-3000:]))
