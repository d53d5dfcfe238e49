# SPDX-License-Identifier: Apache-2.0
"""A bucket that is far away, and a reader of it that is not ours.

The bucket is a real S3 server (versitygw) on loopback, over files in memory, behind a proxy that
adds a latency to each request. Server and proxy take about 0.3 ms of CPU per object.

Objects is the reader that a careful user would write for torch: one connection per process, kept
open, and URLs signed beforehand. So a GET takes it 0.15 ms of CPU; boto3 takes about 1 ms.
"""
import contextlib
import http.client
import os
import shutil
import subprocess

import torch.utils.data

from common import far, program, scratch

BUCKET = "bench"


class Bucket:
    def __init__(self, server, root, port):
        self.server, self.root, self.port = server, root, port
        self.endpoint = f"http://127.0.0.1:{port}"  # and what a manager wants to know:
        self.KEY_ID, self.SECRET, self.region = server.KEY_ID, server.SECRET, server.region
        self.env = {**os.environ, **server.env(AWS_ENDPOINT_URL=f"http://127.0.0.1:{port}")}

    def add(self, name, path):
        """A folder becomes the objects below name/."""
        shutil.copytree(path, os.path.join(self.root, BUCKET, name))

    def url(self, name):
        return f"s3://{BUCKET}/{name}"

    def signed(self, name, keys):
        """Paths with signature, for plain GETs of objects below name/."""
        import boto3
        from botocore.config import Config

        client = boto3.client("s3", endpoint_url=self.env["AWS_ENDPOINT_URL"],
                              aws_access_key_id=self.env["AWS_ACCESS_KEY_ID"],
                              aws_secret_access_key=self.env["AWS_SECRET_ACCESS_KEY"],
                              region_name=self.env["AWS_REGION"],
                              config=Config(signature_version="s3v4",
                                            s3={"addressing_style": "path"}))
        urls = [client.generate_presigned_url(
            "get_object", Params={"Bucket": BUCKET, "Key": f"{name}/{key}"}, ExpiresIn=86_400)
            for key in keys]
        return [url[len(self.env["AWS_ENDPOINT_URL"]):] for url in urls]


@contextlib.contextmanager
def further(build, near, ms, jitter_ms=0, bytes_per_s=0):
    """The same bucket over another link."""
    with far(build, near.server.port, ms, jitter_ms, bytes_per_s) as port:
        yield Bucket(near.server, near.root, port)


@contextlib.contextmanager
def nodes_of(build, far_away, name, count, memory):
    """A cluster whose nodes share a dataset of the bucket: its URL there, and their sockets."""
    with scratch() as home:
        os.environ.update(TEST_DIR=home, DLCACHE_BUILD=build, DLCACHE_PROGRAM=program(build))
        import nodes

        class Cluster(nodes.Cluster):
            def bucket(self):
                return contextlib.nullcontext(far_away)
        with Cluster(count, memory=str(memory)) as c:
            c.credentials("ann", c.ann)
            url = c.register(name, far_away.url(name) + "/")
            os.environ["DLCACHE_TOKEN"] = c.ann
            try:
                yield url, [node.socket for node in c.nodes]
            finally:
                del os.environ["DLCACHE_TOKEN"]


@contextlib.contextmanager
def bucket(build, ms):
    os.environ["DLCACHE_BUILD"] = build
    subprocess.run(["tools/get-versitygw", build], check=True, stdout=subprocess.DEVNULL)
    import s3server

    with scratch("/dev/shm") as memory:
        root = os.path.join(memory, "s3")
        with s3server.Real(root, BUCKET) as server, far(build, server.port, ms) as port:
            yield Bucket(server, root, port)


class Connection:
    """One HTTP connection, kept open; opened at the first use in each process."""

    def __init__(self, port):
        self.port = port
        self.pid, self.http = 0, None

    def get(self, path):
        if self.pid != os.getpid():
            self.pid, self.http = os.getpid(), http.client.HTTPConnection("127.0.0.1", self.port)
        self.http.request("GET", path)
        answer = self.http.getresponse()
        body = answer.read()
        if answer.status != 200:
            raise SystemExit(f"bench: the S3 server said {answer.status}: {body[:500]!r}")
        return body


class Objects(torch.utils.data.Dataset):
    """Sample i is a GET of paths[i], then make(bytes); its label is labels[i]."""

    def __init__(self, port, paths, labels, make):
        self.connection = Connection(port)
        self.paths, self.labels, self.make = paths, labels, make

    def __len__(self):
        return len(self.paths)

    def __getitem__(self, i):
        return self.make(self.connection.get(self.paths[i])), self.labels[i]


def labels_of(keys):
    """Folders are classes, numbered in their order, as ImageFolder and dlcache have it."""
    number = {name: i for i, name in enumerate(sorted({os.path.dirname(k) for k in keys}))}
    return [number[os.path.dirname(k)] for k in keys]
