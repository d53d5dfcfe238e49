# SPDX-License-Identifier: Apache-2.0
"""BUILD/tests/k8s/hook-probe: the operator's webhook without the rest of it.

    with hook.Hook() as h:
        c.apply(h.configuration())      the webhooks of deploy/base, at the probe's address instead of the Service's
        h.rotate()                      another CA; apply the configuration again
        h.metrics()                     the text
        h.kill()                        nobody answers any more
"""
import base64
import json
import os
import subprocess
import urllib.request

import deploy
import dl


class Hook:
    def __enter__(self):
        self.process = subprocess.Popen([os.path.join(dl.BUILD, "tests/k8s/hook-probe")], stdin=subprocess.PIPE,
                                        stdout=subprocess.PIPE, text=True)
        self.read()
        return self

    def __exit__(self, *exc):
        self.process.stdin.close()
        status = self.process.wait(30)
        if exc[0] is None and not self.killed:
            assert status == 0, status

    killed = False

    def read(self):
        self.said = json.loads(self.process.stdout.readline())

    def rotate(self):
        self.process.stdin.write("rotate\n")
        self.process.stdin.flush()
        self.read()

    def kill(self):
        self.killed = True
        self.process.kill()
        self.process.wait()

    def metrics(self):
        opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
        with opener.open("http://%s/metrics" % self.said["http"], timeout=20) as f:
            return f.read().decode()

    def configuration(self):
        config = deploy.pick(deploy.kustomize("base"), "MutatingWebhookConfiguration", "dlcache-webhook")
        for w in config["webhooks"]:
            path = w["clientConfig"]["service"]["path"]
            w["clientConfig"] = {"url": "https://%s%s" % (self.said["webhook"], path),
                                 "caBundle": base64.b64encode(self.said["bundle"].encode()).decode()}
        return config
