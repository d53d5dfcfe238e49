# SPDX-License-Identifier: Apache-2.0
"""What a program says at /metrics: read it, subtract an earlier reading, quantiles as Prometheus has them.

    before = prometheus.read(url); ...; m = prometheus.read(url) - before
    m.by("dlcache_operator_api_requests_total", "verb")                      {"get": 3, ...}
    m.quantile("dlcache_operator_reconciliation_seconds", 0.99, kind="DLTPod")
"""
import re
import urllib.request

SAMPLE = re.compile(r"(\w+)(?:\{(.*)\})? (\S+)$")
LABEL = re.compile(r'(\w+)="([^"]*)"')


class Reading:
    def __init__(self, values):
        self.values = values  # {(name, ((label, value), ...)): number}

    def __sub__(self, before):
        return Reading({k: v - before.values.get(k, 0) for k, v in self.values.items()})

    def samples(self, name, labels):
        for (n, pairs), value in self.values.items():
            have = dict(pairs)
            if n == name and all(have.get(k) == v for k, v in labels.items()):
                yield have, value

    def sum(self, name, **labels):
        return sum(v for _, v in self.samples(name, labels))

    def by(self, name, label, **labels):
        found = {}
        for have, value in self.samples(name, labels):
            found[have[label]] = found.get(have[label], 0) + value
        return found

    def quantile(self, name, q, **labels):
        """As histogram_quantile(): linear within a bucket; the last bound when it lies beyond. None: nothing counted."""
        buckets = sorted((float(le), n) for le, n in self.by(name + "_bucket", "le", **labels).items())
        if not buckets or buckets[-1][1] == 0:
            return None
        rank, low, under = q * buckets[-1][1], 0.0, 0
        for bound, count in buckets:
            if count >= rank and count > under:
                return low if bound == float("inf") else low + (bound - low) * (rank - under) / (count - under)
            low, under = bound, count
        return low


def parse(text):
    values = {}
    for line in text.splitlines():
        m = SAMPLE.match(line)
        if m and not line.startswith("#"):
            values[m[1], tuple(LABEL.findall(m[2] or ""))] = float(m[3])
    return Reading(values)


def read(url):
    with urllib.request.urlopen(url, timeout=20) as answer:
        return parse(answer.read().decode())
