# SPDX-License-Identifier: Apache-2.0
"""A real S3 server that is not ours: versitygw over a directory, built by tools/get-versitygw.

    with s3server.Real() as s3:            raises Skip when it is not there (prints why, exit status 77)
        s3.put("train/0001.jpg", b"...")   into the bucket "data", as a file below its directory
        run(..., env=s3.env())
"""
import http.client
import os
import socket
import subprocess
import sys
import time

from hosts_local import HERE

BUILD = os.environ.get("DLCACHE_BUILD", "build")


class Skip(SystemExit):
    """The test cannot run here: ends the program with a line that says why and status 77."""

    def __init__(self, why):
        print(why)
        sys.stdout.flush()
        super().__init__(77)


def find():
    """(path, version) of versitygw, or raises Skip."""
    real = os.path.join(BUILD, "real")
    path = os.path.join(real, "versitygw")
    if not os.access(path, os.X_OK):
        try:
            with open(path + ".why") as f:
                raise Skip(f.read().strip())
        except FileNotFoundError:
            raise Skip("versitygw is not built; run: tools/get-versitygw %s" % BUILD) from None
    with open(path + ".version") as f:
        return path, f.read().strip()


def free_port(host=HERE):
    with host.inside(), socket.create_server((host.address, 0)) as s:
        return s.getsockname()[1]


class Real:
    KEY_ID, SECRET, REGION = "realtestkey", "real/test+secret", "us-east-1"
    region = REGION  # as faulty.S3 has it

    def __init__(self, directory=None, bucket="data", users=False, host=HERE, flags=()):
        self.host, self.flags = host, list(flags)
        self.path, self.version = find()
        self.root = directory or os.path.join(os.environ.get("TEST_DIR", "/tmp"), "s3")
        self.bucket, self.iam = bucket, []
        if users:
            os.makedirs(self.root + ".iam", exist_ok=True)
            self.iam = ["--iam-dir", self.root + ".iam", "--iam-cache-disable"]
        os.makedirs(os.path.join(self.root, bucket), exist_ok=True)

    def __enter__(self):
        for _ in range(5):  # the port was free a moment ago; try another when somebody was faster
            self.port = free_port(self.host)
            self.endpoint = "http://%s:%d" % (self.host.address, self.port)
            self.log = open(self.root + ".log", "ab")
            self.process = subprocess.Popen(
                self.host.command([self.path, "--port", self.endpoint[7:], "--access", self.KEY_ID, "--secret",
                                   self.SECRET, "--region", self.REGION, "--keep-alive", "--quiet", *self.iam,
                                   *self.flags, "posix", self.root]),
                stdin=subprocess.DEVNULL, stdout=self.log, stderr=self.log)
            if self.answers():
                print("real S3 server: versitygw %s at %s" % (self.version, self.endpoint))
                sys.stdout.flush()
                return self
            self.stop()
        with open(self.root + ".log", errors="replace") as f:
            raise RuntimeError("versitygw does not start: " + f.read()[-2000:])

    def answers(self):
        end = time.monotonic() + 20
        while time.monotonic() < end and self.process.poll() is None:
            try:
                conn = http.client.HTTPConnection(self.host.address, self.port, timeout=5)
                with self.host.inside():
                    conn.connect()
                conn.request("GET", "/")
                conn.getresponse().read()
                return self.process.poll() is None
            except OSError:
                time.sleep(0.02)
        return False

    def __exit__(self, *exc):
        self.stop()

    def stop(self):
        self.process.terminate()
        try:
            self.process.wait(10)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        self.log.close()

    def put(self, key, data):
        """As a file: what no file system can hold as a name goes in through the API (client())."""
        path = os.path.join(self.root, self.bucket, key)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "wb") as f:
            f.write(data)

    def admin(self, *words):
        subprocess.run([self.path, "admin", "--access", self.KEY_ID, "--secret", self.SECRET, "--region", self.REGION,
                        "--endpoint-url", self.endpoint, *words], check=True, stdin=subprocess.DEVNULL,
                       stdout=self.log, stderr=self.log, timeout=60)

    def user(self, name, secret, bucket):
        """One who owns a bucket that others may not read. Needs users=True."""
        self.admin("create-user", "--access", name, "--secret", secret, "--role", "user")
        self.admin("change-bucket-owner", "--bucket", bucket, "--owner", name)

    def client(self):
        """A boto3 client, for uploads; Skip when boto3 is absent."""
        try:
            import boto3
        except ImportError:
            raise Skip("boto3 is absent (python3-boto3)") from None
        return boto3.client("s3", endpoint_url=self.endpoint, aws_access_key_id=self.KEY_ID,
                            aws_secret_access_key=self.SECRET, region_name=self.REGION)

    def env(self, **more):
        return dict({"AWS_ACCESS_KEY_ID": self.KEY_ID, "AWS_SECRET_ACCESS_KEY": self.SECRET,
                     "AWS_ENDPOINT_URL": self.endpoint, "AWS_REGION": self.REGION}, **more)
