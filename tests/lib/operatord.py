# SPDX-License-Identifier: Apache-2.0
"""The real operator between a real Kubernetes (k8s.Cluster), a real manager with real nodes and a bucket (nodes.Cluster).

    with operatord.World(2) as w:                       nodes a, b: dlcache's and Kubernetes', both called so
        o = w.operator()                                a replica; it runs as the account of deploy/base
        w.put("birds", 20)                              objects below birds/ of the bucket
        w.dltpod("x", w.job("birds"))                   in namespace "team"
        w.phase("x", "Running")                         waits
        w.says("x", "DatasetReady", "False", "SecretMissing")     waits for a condition; its message
        w.end("x")                                      its pods succeed
        o.kill()                                        SIGKILL; w.operator("op") starts it again
        o.figure("api_requests_total", verb="patch")    of its metrics; a sum

w.k is the k8s.Cluster, w.m the manager, w.s3 the bucket, w.nodes the nodes by name.
"""
import contextlib
import http.client
import json
import os
import re
import signal
import subprocess
import sys
import time

import deploy
import dl
import k8s
import nodes

NS = "team"
GROUP = "/apis/dlcache.io/v1alpha1/namespaces/%s/"
LEASE = "/apis/coordination.k8s.io/v1/namespaces/%s/leases/dlcache-operator" % deploy.NAMESPACE
HOOKS = "/apis/admissionregistration.k8s.io/v1/mutatingwebhookconfigurations/dlcache-webhook"
HOOK_SECRET = "/api/v1/namespaces/%s/secrets/dlcache-webhook" % deploy.NAMESPACE
READY = "dlcache.io/node"
ACCOUNT = "dlcache-operator"
WRITES = ("create", "update", "patch", "delete")

if not os.access(os.path.join(dl.BUILD, "tests/k8s/kube-probe"), os.X_OK):
    raise dl.Skip("built without the operator")  # before a cluster is started for nothing


class Operator:
    """One replica. `name` is that of its pod: it leads in the Lease."""

    def __init__(self, name, *flags, env=None):
        self.name, self.flags = name, [str(f) for f in flags]
        self.env = dict(os.environ, POD_NAME=name, **(env or {}))
        self.log_path, self.process, self.address = dl.path(name + ".log"), None, None

    def start(self):
        before = os.path.getsize(self.log_path) if os.path.exists(self.log_path) else 0
        with open(self.log_path, "ab") as log:
            self.process = subprocess.Popen([dl.PROGRAM, "operator", *self.flags], env=self.env, stdin=subprocess.DEVNULL,
                                            stdout=log, stderr=log)
        dl.wait_for(lambda: self.process.poll() is not None or self.find(before), 60, "an operator that answers", 0.02)
        self.alive()
        return self

    def find(self, since):
        """Where it is, as it said itself."""
        with open(self.log_path, errors="replace") as f:
            f.seek(since)
            for line in f:
                m = re.match(r"operator at http://([^,\s]+).*\n", line)
                if m:
                    self.address = m.group(1)
                    return True
        return False

    def alive(self):
        if self.process is not None and self.process.poll() is not None:
            raise AssertionError("operator %s ended with status %d:\n%s" % (self.name, self.process.returncode,
                                                                            self.log()[-4000:]))

    def signal(self, number):
        self.process.send_signal(number)

    def kill(self):
        self.process.kill()
        self.process.wait()
        self.process = None

    def stop(self):
        """In good order."""
        if self.process is None:
            return
        self.alive()
        self.signal(signal.SIGTERM)
        status = self.process.wait(30 * dl.SLOW)
        self.process = None
        if status != 0:
            raise AssertionError("operator %s ended with status %d:\n%s" % (self.name, status, self.log()[-4000:]))
        self.log()

    def log(self):
        with open(self.log_path, errors="replace") as f:
            return dl.hide_nothing(f.read())

    def get(self, path):
        """(status, text)."""
        conn = http.client.HTTPConnection(self.address, timeout=20 * dl.SLOW)
        try:
            conn.request("GET", path)
            answer = conn.getresponse()
            return answer.status, dl.hide_nothing(answer.read().decode())
        finally:
            conn.close()

    def is_ready(self):
        return self.get("/readyz")[0] == 200

    def figures(self):
        """{(name without its prefix, {label: value}): value}, as pairs."""
        found = []
        for line in self.get("/metrics")[1].splitlines():
            m = re.fullmatch(r"dlcache_operator_(\w+)(?:\{(.*)\})? (\S+)", line)
            if m:
                found.append((m.group(1), dict(re.findall(r'(\w+)="([^"]*)"', m.group(2) or "")), float(m.group(3))))
        return found

    def figure(self, name, **labels):
        """Of all series that have these labels, the sum."""
        return sum(v for n, have, v in self.figures() if n == name and labels.items() <= have.items())

    def leads(self):
        return self.figure("leader") == 1

    def writes(self):
        """Objects that it has changed, its Lease included."""
        return sum(v for n, have, v in self.figures()
                   if n == "api_requests_total" and have["verb"] in WRITES and have["code"].startswith("2"))


class World:
    """n nodes. controllers: what has lost its owner goes. api: flags of kube-apiserver; node: of dlcache's nodes; kube:
    {name of a node: what k8s.Cluster.node() is told of it}; manager: flags of it."""

    def __init__(self, n=2, controllers=False, api=(), node=(), kube=None, manager=()):
        self.k = k8s.Cluster(kwok=True, scheduler=True, controllers=controllers, flags=api, first=self.install)
        self.data = nodes.Cluster(n, *node, memory="16MB", manager_flags=("--node-ttl", "3s", *manager))
        self.kube, self.operators = kube or {}, {}

    def __enter__(self):
        with contextlib.ExitStack() as stack:
            stack.enter_context(self.k)
            stack.enter_context(self.data)
            self.m, self.s3 = self.data.manager, self.data.server
            self.m.flags[self.m.flags.index("--listen") + 1] = self.m.address  # it comes back where it was
            self.s3.public = True
            self.nodes = {n.name: n for n in self.data.nodes}
            self.kubeconfig = self.config_of("operator")
            for name in self.nodes:
                self.k.node(name, **self.kube.get(name, {}))
            self.namespace(NS)
            self.stack = stack.pop_all()
        return self

    def install(self):
        """CRDs, and the account of deploy/base with its rights."""
        base = deploy.kustomize("base")
        kinds = ("ServiceAccount", "Role", "RoleBinding", "ClusterRole", "ClusterRoleBinding")
        self.k.apply(deploy.pick(base, "Namespace", deploy.NAMESPACE))
        self.k.kubectl("apply", "--server-side", "-k", deploy.path("crd"))
        self.k.apply({"apiVersion": "v1", "kind": "List", "items": [o for o in base if o["kind"] in kinds]})
        self.k.kubectl("wait", "--for=condition=Established", "--timeout=60s", "crd/dltpods.dlcache.io",
                       "crd/cacheddatasets.dlcache.io")

    def namespace(self, name):
        """A namespace whose Secrets the operator may read."""
        self.k.namespace(name)
        self.k.apply(deploy.secrets_binding(name))

    def config_of(self, name, server=None):
        """A kubeconfig of the operator's account."""
        path = dl.path(name + ".kubeconfig")
        with open(path, "w") as f:
            json.dump(self.k.config({"token": self.k.account(deploy.NAMESPACE, ACCOUNT)}, server), f)
        return path

    def __exit__(self, kind, *rest):
        try:
            for o in self.operators.values():
                if o.process is None:
                    continue
                if kind is None:
                    o.stop()
                else:
                    o.kill()
                    sys.stderr.write("-- log of operator %s:\n%s" % (o.name, o.log()[-6000:]))
        except BaseException:
            kind = AssertionError
            raise
        finally:
            self.stack.__exit__(kind, *rest)

    def operator(self, name="op", *flags, kubeconfig=None, token=True, env=None, settle=True):
        """Start a replica, or start it again. When this returns all nodes have their label, unless settle is false.
        token: it is told the manager's; else it finds it in the Secret dlcache-manager."""
        if name not in self.operators:
            known = ["--token-file", os.path.join(self.m.dir, "admin.token")] if token else []
            self.operators[name] = Operator(
                name, "--kubeconfig", kubeconfig or self.kubeconfig, "--namespace", deploy.NAMESPACE, "--listen",
                "127.0.0.1:0", "--manager", "http://" + self.m.address, "--lease", "%ds" % (3 * dl.SLOW), "--log-level",
                "info", *known, *flags, env=env)
        o = self.operators[name].start()
        if settle:
            self.settle()
        return o

    def settle(self):
        """Until every live node of dlcache has its label."""
        live = {n for n in self.nodes if self.nodes[n].process is not None}
        self.wait(lambda: {o["metadata"]["name"] for o in self.k.items("/api/v1/nodes", READY + "=ready")} == live,
                  "nodes with a label")

    def vacate(self):
        """The Lease of one that is dead: nobody has to wait until it ends."""
        if self.k.get(LEASE) is not None:
            self.k.delete(LEASE)

    def hooks(self):
        """The webhooks of deploy/base, but for the way to the Service: nobody routes its address here. The operator's flags."""
        port = k8s.free_port()
        self.k.call("POST", "/api/v1/namespaces/%s/services" % deploy.NAMESPACE, {
            "metadata": {"name": "dlcache-operator"}, "spec": {"type": "ExternalName", "externalName": "localhost"}})
        config = deploy.pick(deploy.kustomize("base"), "MutatingWebhookConfiguration", "dlcache-webhook")
        for h in config["webhooks"]:
            assert "caBundle" not in h["clientConfig"]
            h["clientConfig"]["service"]["port"] = port
        self.k.apply(config)
        return "--webhook", "127.0.0.1:%d" % port

    def bundles(self):
        """What the API server believes the webhook by; None among them: nothing."""
        return {h["clientConfig"].get("caBundle") for h in self.k.get(HOOKS)["webhooks"]}

    # -------- what users do --------

    def put(self, prefix, n, size=20000):
        return self.data.put(prefix, n, size)

    def source(self, prefix, **more):
        return dict({"bucket": "s3://data/%s/" % prefix, "endpoint": self.s3.endpoint}, **more)

    def job(self, prefix=None, name="train", source=None, ref=None, **more):
        """One of spec.jobs that reads what is below a prefix, or a CachedDataset."""
        data = source or ({"datasetRef": {"name": ref}} if ref else self.source(prefix))
        return dict({"name": name, "image": "registry.example/train:1", "dataSource": data}, **more)

    def path(self, name="", kind="dltpods", ns=NS):
        return GROUP % ns + kind + ("/" + name if name else "")

    def dltpod(self, name, *jobs, ns=NS, **spec):
        return self.k.call("POST", self.path(ns=ns), {"apiVersion": "dlcache.io/v1alpha1", "kind": "DLTPod", "metadata": {
            "name": name}, "spec": dict({"jobs": list(jobs)}, **spec)})

    def dataset(self, name, prefix, ns=NS, **spec):
        return self.k.call("POST", self.path(kind="cacheddatasets", ns=ns), {
            "apiVersion": "dlcache.io/v1alpha1", "kind": "CachedDataset", "metadata": {"name": name},
            "spec": dict(self.source(prefix), **spec)})

    def labelled(self, name, labels=None):
        """A pod that is no DLTPod's, as the API server keeps it. By default it asks for the CachedDataset birds."""
        return self.k.call("POST", "/api/v1/namespaces/%s/pods" % NS, {
            "metadata": {"name": name, "labels": {"dlcache.io/dataset": "birds"} if labels is None else labels},
            "spec": {"automountServiceAccountToken": False, "containers": [{"name": "a", "image": "x"}]}})

    def secret(self, name, ns=NS, **texts):
        return self.k.call("POST", "/api/v1/namespaces/%s/secrets" % ns, {"metadata": {"name": name}, "stringData": texts})

    def keys(self, name="keys", ns=NS):
        """The Secret with the bucket's credentials."""
        return self.secret(name, ns, access_key=self.s3.KEY_ID, secret_key=self.s3.SECRET, region=self.s3.region)

    def change(self, name, kind="dltpods", **spec):
        return self.k.merge(self.path(name, kind), {"spec": spec})

    def change_job(self, name, **more):
        """Of its first job."""
        jobs = self.get(name)["spec"]["jobs"]
        jobs[0].update(more)
        return self.change(name, jobs=jobs)

    def delete(self, name, kind="dltpods", ns=NS):
        return self.k.delete(self.path(name, kind, ns))

    def end(self, name, phase="Succeeded", exit_code=0):
        """Its pods end, as a kubelet would say it."""
        for p in self.pods(name):
            self.end_pod(p["metadata"]["name"], phase, exit_code)

    def end_pod(self, pod, phase="Succeeded", exit_code=0):
        state = {"terminated": {"exitCode": exit_code, "reason": "Completed" if exit_code == 0 else "Error"}}
        at = "/api/v1/namespaces/%s/pods/%s" % (NS, pod)
        container = self.k.get(at)["spec"]["containers"][0]
        self.k.merge(at + "/status", {"status": {"phase": phase, "containerStatuses": [{
            "name": container["name"], "image": container["image"], "imageID": "", "ready": False, "restartCount": 0,
            "state": state}]}})

    # -------- what they see --------

    def get(self, name, kind="dltpods", ns=NS):
        return self.k.get(self.path(name, kind, ns))

    def status(self, name, kind="dltpods", ns=NS):
        return (self.get(name, kind, ns) or {}).get("status", {})

    def all(self, kind="dltpods", ns=NS):
        return {o["metadata"]["name"]: o for o in self.k.items(self.path(kind=kind, ns=ns))}

    def pods(self, name=None, ns=NS):
        """Of a DLTPod, or all of the namespace."""
        found = self.k.items("/api/v1/namespaces/%s/pods" % ns, "dlcache.io/dltpod=" + name if name else None)
        return sorted(found, key=lambda p: p["metadata"]["name"])

    def pod(self, name, ns=NS):
        return self.k.get("/api/v1/namespaces/%s/pods/%s" % (ns, name))

    def image(self, pod):
        """Of a pod that may be gone."""
        return (self.pod(pod) or {"spec": {"containers": [{"image": ""}]}})["spec"]["containers"][0]["image"]

    def events(self, name, ns=NS):
        """{reason: how often} of an object."""
        count = {}
        for e in self.k.items("/api/v1/namespaces/%s/events" % ns):
            if e["involvedObject"]["name"] == name:
                count[e["reason"]] = count.get(e["reason"], 0) + e.get("count", 1)
        return count

    def jobs(self):
        """{id: body} of all that the manager knows."""
        found, after = {}, ""
        while after is not None:
            page = self.m.ok("GET", "/v1/jobs?limit=100" + ("&after=" + after if after else "")).json
            found.update((j["id"], j) for j in page["items"])
            after = page.get("next")
        return found

    def has_data(self, name):
        return self.m.call("GET", "/v1/datasets/" + name).status == 200

    def leader(self):
        """Who leads, by the Lease."""
        lease = self.k.get(LEASE)
        return lease["spec"].get("holderIdentity", "").rsplit("_", 1)[0] if lease else ""

    # -------- waiting --------

    def wait(self, condition, what, timeout=60):
        """dl.wait_for, while every replica lives. What takes long is told."""
        def true():
            for o in self.operators.values():
                o.alive()
            return condition()
        begin = time.monotonic()
        value = dl.wait_for(true, timeout, what, 0.05)
        if time.monotonic() - begin > 2:
            print("%5.1f s for %s" % (time.monotonic() - begin, what))
        return value

    def phase(self, name, *phases, kind="dltpods", ns=NS, timeout=60):
        """Until it is in one of these; the object."""
        seen = {}

        def there():
            seen.update(self.get(name, kind, ns) or {})
            return seen if seen.get("status", {}).get("phase") in phases else None
        try:
            return self.wait(there, "%s in %s" % (name, " or ".join(phases)), timeout)
        except AssertionError:
            sys.stderr.write("-- status of %s:\n%s\n" % (name, json.dumps(seen.get("status"), indent=1)))
            raise

    def condition(self, name, type, kind="dltpods", ns=NS):
        return next((c for c in self.status(name, kind, ns).get("conditions", []) if c["type"] == type), None)

    def says(self, name, type, status, reason=None, kind="dltpods", ns=NS, timeout=60):
        """Until a condition is so; its message."""
        seen = []

        def so():
            c = self.condition(name, type, kind, ns)
            seen[:] = [c]
            return c if c and c["status"] == status and reason in (None, c["reason"]) else None
        try:
            return dl.hide_nothing(self.wait(so, "%s: %s %s %s" % (name, type, status, reason or ""), timeout)["message"])
        except AssertionError:
            sys.stderr.write("-- it says: %s\n" % seen)
            raise

    def gone(self, name, kind="dltpods", ns=NS, timeout=60):
        self.wait(lambda: self.get(name, kind, ns) is None, "no %s any more" % name, timeout)

    def quiet(self, o):
        """Until a leader has nothing to do: nothing due, nothing in work, two looks with the same count of rounds."""
        before = [None]

        def idle():
            busy = o.figure("queue_length", state="due") + o.figure("queue_length", state="working")
            rounds = o.figure("reconciliations_total")
            same, before[0] = before[0] == rounds, rounds
            return busy == 0 and same
        self.wait(idle, "an operator with nothing to do")
