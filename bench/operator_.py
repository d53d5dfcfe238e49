# SPDX-License-Identifier: Apache-2.0
"""What does the operator cost, and how fast is it? 1,000 DLTPods made at once, until they run, and deleted at once.

A real kube-apiserver, etcd, kube-scheduler and kube-controller-manager; KWOK in the place of kubelets; a real manager and three
real nodes; a small bucket: all on this machine, on the same processors. Ten namespaces with a CachedDataset each, which a tenth
of the DLTPods reads. One operator with its default settings and the rights of deploy/base. Each round begins from nothing.

    made        the operator has made the last pod
    placed      the last DLTPod says Placed, and kube-scheduler has bound the last pod
    running     the last DLTPod says Running
    released    the last DLTPod is gone, from the first DELETE
    deleted     the last pod too

All but the last two from the first POST. Garbage that kube-controller-manager collects (ConfigMaps) is not waited for. Calls are
the operator's own count of its requests to the API server from the first POST until the last is gone; its Lease is in it.
Durations of reconciliations are the operator's histogram, interpolated as Prometheus does.

Beside them: DLTPods with data sources of their own, a dataset and a listing of the bucket for each; and as many bare pods
without an operator, which is what Kubernetes itself takes for it. kube-scheduler is as it comes: 50 requests a second.

Fail-over: two replicas. The leader gets SIGKILL (or SIGTERM), then a DLTPod is made; it ends when the other has made its pod.
Kills are spread evenly over the time between two renewals of the Lease.

    --objects N      DLTPods, and bare pods (1000); --own N: those with data of their own (100; 0: none)
    --no-bare        without the bare pods
    --rounds N       (1)
    --failovers N    rounds of each kind (5; 0: none); --lease TIME (15s)
"""
import argparse
import contextlib
import os
import signal
import subprocess
import threading
import time

import crowd
import prometheus
from common import cpu_seconds, median, program, scratch, spread, table

NAMESPACES, NODES, LIMIT_S = 10, 3, 900
OPERATOR = "dlcache_operator_"
RENEWALS = 6  # in the time of a Lease: src/operator/kube/lease.h
GOALS = {"placed_s": 60, "calls_per_object": 12, "rss_mb": 64}


class Seen:
    """When each DLTPod and each pod came where it is."""

    STAGES = ("made", "bound", "runs", "pod gone", "placed", "running", "gone")

    def __init__(self):
        self.times = {s: {} for s in self.STAGES}
        self.changed = threading.Condition()

    def mark(self, key, now, *stages):
        with self.changed:
            for s in stages:
                self.times[s].setdefault(key, now)
            self.changed.notify_all()

    @staticmethod
    def key(o):
        return o["metadata"]["namespace"], o["metadata"].get("labels", {}).get("dlcache.io/dltpod", o["metadata"]["name"])

    def dltpod(self, kind, o, now):
        true = {c["type"] for c in o.get("status", {}).get("conditions", []) if c["status"] == "True"}
        self.mark(self.key(o), now, *(["gone"] if kind == "DELETED" else
                                      [s for s, c in (("placed", "Placed"), ("running", "Running")) if c in true]))

    def pod(self, kind, o, now):
        if kind == "DELETED":
            self.mark(self.key(o), now, "pod gone")
        else:
            self.mark(self.key(o), now, "made", *(["bound"] if o["spec"].get("nodeName") else []),
                      *(["runs"] if o.get("status", {}).get("phase") == "Running" else []))

    def wait(self, n, watches, *stages):
        end = time.monotonic() + LIMIT_S
        with self.changed:
            while not all(len(self.times[s]) >= n for s in stages):
                why = next((w.why for w in watches if w.why), None)
                if why or time.monotonic() > end:
                    counts = ", ".join(f"{s} {len(t)}" for s, t in self.times.items())
                    raise SystemExit(f"bench: {why or f'waited {LIMIT_S} s'}; of {n}: {counts}")
                self.changed.wait(1)

    def last(self, since, *stages):
        return max(max(self.times[s].values()) for s in stages) - since


def peak_mb(pid):
    with open(f"/proc/{pid}/status") as f:
        return int(next(line for line in f if line.startswith("VmHWM")).split()[1]) / 1024


class Cpu:
    """Processor time of everybody from now on."""

    def __init__(self, w, operator):
        self.pids = {**w.k.pids(), "operator": operator.process.pid, "manager": w.m.process.pid,
                     **{f"node {name}": n.process.pid for name, n in w.nodes.items()}, "this": os.getpid()}
        self.before = {name: cpu_seconds(pid) for name, pid in self.pids.items()}

    def so_far(self):
        used = {name: cpu_seconds(pid) - self.before[name] for name, pid in self.pids.items()}
        used["nodes"] = sum(used.pop(name) for name in list(used) if name.startswith("node "))
        return {name: round(s, 2) for name, s in used.items()}


def dltpod(w, name, own):
    job = w.job(source=w.source("birds", name=name)) if own else w.job(ref="birds")
    return {"apiVersion": "dlcache.io/v1alpha1", "kind": "DLTPod", "metadata": {"name": name},
            "spec": {"epochs": 3, "jobs": [job], **({"retention": "0s"} if own else {})}}


def names(n):
    return [(f"bench-{i % NAMESPACES}", f"d{i:04}") for i in range(n)]


def one_round(w, operator, n, own):
    """Figures of n DLTPods from nothing to nothing."""
    objects = names(n)
    seen, url = Seen(), f"http://{operator.address}/metrics"
    with contextlib.ExitStack() as stack:
        watches = [stack.enter_context(crowd.Watch(w.k, p, note))
                   for p, note in (("/apis/dlcache.io/v1alpha1/dltpods", seen.dltpod), ("/api/v1/pods", seen.pod))]
        before, cpu, start = prometheus.read(url), Cpu(w, operator), time.monotonic()
        creating = crowd.each(w.k, [("POST", w.path(ns=ns), dltpod(w, name, own)) for ns, name in objects])
        seen.wait(n, watches, "placed", "bound", "running", "runs")
        run = prometheus.read(url) - before
        deletion = time.monotonic()
        crowd.each(w.k, [("DELETE", w.path(name, ns=ns), None) for ns, name in objects])
        seen.wait(n, watches, "gone", "pod gone")
        all_of_it, used = prometheus.read(url) - before, cpu.so_far()
    calls = all_of_it.by(OPERATOR + "api_requests_total", "verb")
    lists = {verb: calls.pop(verb, 0) for verb in ("list", "watch")}
    errors = {c: v for c, v in all_of_it.by(OPERATOR + "api_requests_total", "code").items() if not c.startswith("2") and v}
    q = {f"{name}_ms": all_of_it.quantile(OPERATOR + "reconciliation_seconds", q, kind=kind)
         for name, q, kind in (("p50", .5, "DLTPod"), ("p99", .99, "DLTPod"), ("dataset_p99", .99, "CachedDataset"))}
    return {
        "created_s": creating, "made_s": seen.last(start, "made"), "decided_s": seen.last(start, "placed"),
        "placed_s": seen.last(start, "placed", "bound"), "running_s": seen.last(start, "running", "runs"),
        "released_s": seen.last(deletion, "gone"), "deleted_s": seen.last(deletion, "gone", "pod gone"),
        **{name: v * 1000 for name, v in q.items() if v is not None},
        "calls_per_object": sum(calls.values()) / n, "calls_until_running": sum(
            v for verb, v in run.by(OPERATOR + "api_requests_total", "verb").items() if verb not in lists) / n,
        "calls": {verb: v / n for verb, v in calls.items() if v}, "lists": lists, "codes": errors,
        "rounds_per_object": all_of_it.sum(OPERATOR + "reconciliations_total", kind="DLTPod") / n,
        "dataset_rounds": all_of_it.sum(OPERATOR + "reconciliations_total", kind="CachedDataset"),
        "failed_rounds": all_of_it.sum(OPERATOR + "reconciliations_total", result="error"),
        "rss_mb": peak_mb(operator.process.pid), "cpu_s": used.pop("operator"), "cpu_others_s": used,
    }


def bare_pods(w, n):
    """Figures of n pods that nobody but Kubernetes looks after."""
    def path(ns, name=""):
        return f"/api/v1/namespaces/{ns}/pods/{name}".rstrip("/")

    def pod(name):
        return {"metadata": {"name": name}, "spec": {"containers": [{"name": "train", "image": "registry.example/train:1"}]}}

    seen = Seen()
    with crowd.Watch(w.k, "/api/v1/pods", seen.pod) as watch:
        start = time.monotonic()
        creating = crowd.each(w.k, [("POST", path(ns), pod(name)) for ns, name in names(n)])
        seen.wait(n, [watch], "bound", "runs")
        deletion = time.monotonic()
        crowd.each(w.k, [("DELETE", path(ns, name), None) for ns, name in names(n)])
        seen.wait(n, [watch], "pod gone")
    return {"created_s": creating, "placed_s": seen.last(start, "bound"), "running_s": seen.last(start, "runs"),
            "deleted_s": seen.last(deletion, "pod gone")}


# -------- a world --------


@contextlib.contextmanager
def world(namespaces=NAMESPACES):
    """Everything but the operator."""
    import operatord

    with scratch() as home:
        import dl

        dl.DIR = os.environ["TEST_DIR"] = home
        w = operatord.World(NODES, controllers=True)
        w.data.manager.flags += ["--node-ttl", "10s"]  # the default, not that of tests: processors are busy here
        with w:
            w.k.start_controllers()  # garbage is collected of DLTPods too, from the beginning
            w.put("birds", 20, 1000)
            for i in range(namespaces):
                w.k.namespace(f"bench-{i}")
            # The API server holds up the first objects of a kind that it has known for less than two seconds.
            w.k.call("POST", w.path(ns="bench-0") + "?dryRun=All", dltpod(w, "x", True))
            yield w


def replica(w, name, lease):
    return w.operator(name, "--lease", lease, "--log-level", "warn", settle=False)


def with_data(w, namespaces):
    """A CachedDataset in each namespace, ready."""
    for i in range(namespaces):
        w.dataset("birds", "birds", ns=f"bench-{i}")
    for i in range(namespaces):
        w.phase("birds", "Ready", kind="cacheddatasets", ns=f"bench-{i}", timeout=120)


def measure(n, own):
    with world() as w:
        o = replica(w, "op", "15s")
        w.settle()
        if not own:
            with_data(w, NAMESPACES)
        w.quiet(o)
        return one_round(w, o, n, own)


def measure_bare(n):
    with world() as w:
        return bare_pods(w, n)


# -------- fail-over --------


class Made:
    """When the first pod of each DLTPod came."""

    def __init__(self):
        self.times = {}

    def __call__(self, kind, o, now):
        self.times.setdefault(o["metadata"].get("labels", {}).get("dlcache.io/dltpod"), now)


def await_renewal(w, lease_path, phase_s):
    """Until the leader has renewed its Lease, and so long after."""
    def renewed():
        return w.k.get(lease_path)["spec"]["renewTime"]
    before = renewed()
    w.wait(lambda: renewed() != before, "a renewal of the Lease")
    time.sleep(phase_s)


def fail_over(w, made, name, number, phase_s):
    """The leader goes: seconds until the other leads, and until it has made the pod of a DLTPod that came after."""
    import operatord

    await_renewal(w, operatord.LEASE, phase_s)
    leader = next(o for o in w.operators.values() if o.leads())
    other = next(o for o in w.operators.values() if o is not leader)
    dying, leader.process = leader.process, None  # it may end: nobody minds
    start = time.monotonic()
    dying.send_signal(number)
    w.dltpod(name, w.job(ref="birds"), ns="bench-0")
    w.wait(other.leads, "another leader", timeout=120)
    leads = time.monotonic() - start
    w.wait(lambda: name in made.times, "a pod made by the other replica", timeout=120)
    acted = made.times[name] - start
    dying.wait()
    w.operator(leader.name, settle=False)
    w.wait(leader.is_ready, "a replica that is ready")
    w.delete(name, ns="bench-0")
    w.gone(name, ns="bench-0")
    return min(leads, acted), acted  # the metrics were asked a little too late


def failovers(rounds, lease):
    """{"SIGKILL": [(leads, acted), ...], "SIGTERM": ...}"""
    made, lease_s = Made(), float(lease.rstrip("s"))
    with world(1) as w, crowd.Watch(w.k, "/api/v1/pods", made):
        for name in ("op-a", "op-b"):
            w.wait(replica(w, name, lease).is_ready, "a replica that is ready")
        w.settle()
        with_data(w, 1)
        return {number.name: [fail_over(w, made, f"{number.name.lower()}-{i}", number, lease_s / RENEWALS * i / rounds)
                              for i in range(rounds)]
                for number in (signal.SIGKILL, signal.SIGTERM)}


# -------- all of it --------


def show(results, goals):
    """A row for each figure: its median of the rounds, for each kind of data."""
    def cell(rounds, name, form):
        values = [r[name] for r in rounds if name in r]
        return f"{median(values):{form}}" if values else "-"

    kinds = list(results)
    many = [f"{kinds[0]}, spread"] if len(results[kinds[0]]) > 1 else []
    rows = []
    for name, form in ROWS.items():
        values = [r[name] for r in results[kinds[0]]]
        rows.append([name, *(cell(results[k], name, form) for k in kinds), *([spread(values)] if many else []),
                     f"<= {goals[name]}" if name in goals else ""])
    table(["", *kinds, *many, "goal"], rows)


ROWS = {"created_s": ".2f", "made_s": ".2f", "decided_s": ".2f", "placed_s": ".2f", "running_s": ".2f",
        "released_s": ".2f", "deleted_s": ".2f", "p50_ms": ".1f", "p99_ms": ".1f", "rounds_per_object": ".2f",
        "calls_per_object": ".2f", "calls_until_running": ".2f", "rss_mb": ".1f", "cpu_s": ".2f"}


def tell(kind, r):
    verbs = ", ".join(f"{verb} {v:.2f}" for verb, v in sorted(r["calls"].items()))
    codes = ", ".join(f"{int(v)} of status {c}" for c, v in sorted(r["codes"].items())) or "none"
    cpu = ", ".join(f"{name} {s:.1f}" for name, s in sorted(r["cpu_others_s"].items(), key=lambda p: -p[1]))
    print(f"{kind}: calls per object: {verbs}; not 2xx: {codes}; lists {r['lists']['list']:.0f}, watches"
          f" {r['lists']['watch']:.0f}; rounds of CachedDatasets {r['dataset_rounds']:.0f}, of any that failed"
          f" {r['failed_rounds']:.0f}\n{kind}: CPU of the others, s: {cpu}")


def tell_failovers(found, lease):
    figures = {}
    for number, name in (("SIGKILL", "failover"), ("SIGTERM", "graceful")):
        leads, acted = zip(*found[number])
        print(f"{number}: the other leads after {median(leads):.2f} s (most {max(leads):.2f}) and has acted after"
              f" {median(acted):.2f} s (most {max(acted):.2f}); {len(acted)} rounds, lease {lease}")
        figures.update({f"{name}_s": round(median(acted), 3), f"{name}_most_s": round(max(acted), 3),
                        f"{name}_leads_s": round(median(leads), 3), f"{name}_rounds_s": [round(s, 3) for s in acted]})
    return figures


def medians(rounds):
    return {name: round(median([r[name] for r in rounds]), 3) for name in ROWS if name in rounds[0]}


def options(argv):
    p = argparse.ArgumentParser(prog="bench/run operator")
    p.add_argument("--objects", type=int, default=1000)
    p.add_argument("--own", type=int, default=100)
    p.add_argument("--no-bare", dest="bare", action="store_false")
    p.add_argument("--rounds", type=int, default=int(os.environ.get("DLCACHE_BENCH_RUNS", "1")))
    p.add_argument("--failovers", type=int, default=5)
    p.add_argument("--lease", default="15s")
    return p.parse_args(argv)


def prepare(build):
    """What the tests' harness wants to know. Ends the benchmark where there is no operator."""
    os.environ.update(TEST_DIR="/tmp", TEST_ROOT=os.getcwd(), DLCACHE_BUILD=build, DLCACHE_PROGRAM=program(build))
    import s3server

    if subprocess.run([program(build), "operator", "--help"], capture_output=True).returncode != 0:
        raise s3server.Skip("this dlcache was built without the operator")


def run(build, argv=()):
    args = options(argv)
    subprocess.run(["tools/get-k8s", build], check=True, stdout=subprocess.DEVNULL)
    return figures(build, args)


def figures(build, args):
    """The table, and the dictionary of the JSON line; with what is in BUILD/real."""
    prepare(build)
    kinds = {"CachedDataset": lambda: measure(args.objects, False)}
    if args.own > 0:
        kinds["own data"] = lambda: measure(args.own, True)
    if args.bare:
        kinds["bare pods"] = lambda: measure_bare(args.objects)
    results = {kind: [] for kind in kinds}
    for _ in range(args.rounds):
        for kind, work in kinds.items():
            results[kind].append(work())
    found = failovers(args.failovers, args.lease) if args.failovers > 0 else None
    print(f"{args.objects} DLTPods that read {NAMESPACES} CachedDatasets; {args.own} with data of their own;"
          f" {args.rounds} round{'s' if args.rounds > 1 else ''}, {os.cpu_count()} processors")
    show(results, GOALS)
    for kind, rounds in results.items():
        if kind != "bare pods":
            tell(kind, rounds[-1])
    main = results["CachedDataset"]
    out = medians(main)
    out.update(objects=args.objects, rounds=args.rounds, nodes=NODES, lists=main[-1]["lists"],
               calls={verb: round(v, 3) for verb, v in main[-1]["calls"].items()},
               cpu_others_s=main[-1]["cpu_others_s"], placed_most_s=round(max(r["placed_s"] for r in main), 3))
    if args.own > 0:
        out["own"] = {"objects": args.own, **medians(results["own data"])}
    if args.bare:
        out["bare"] = medians(results["bare pods"])
    if found:
        out.update(tell_failovers(found, args.lease), lease=args.lease)
    return out
