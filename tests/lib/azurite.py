# SPDX-License-Identifier: Apache-2.0
"""Microsoft's emulator of Azure Blob Storage, fetched by tools/get-azurite.

    with azurite.Azurite() as az:          raises Skip when it is not there (prints why, exit status 77)
        az.put("train/0001.jpg", b"...")   into the container "data"
        run(..., env=az.env())             or az.sas_env(), az.connection_env()

Requests of this module are signed here, by code that shares nothing with dlcache's.
"""
import base64
import hashlib
import hmac
import http.client
import os
import subprocess
import sys
import time
import urllib.parse

from s3server import BUILD, Skip, free_port

ACCOUNT = "devstoreaccount1"
KEY = "Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw=="
VERSION = "2023-11-03"


def find():
    path = os.path.join(BUILD, "real", "azurite")
    if os.path.exists(path):
        return os.path.join(path, "node_modules/azurite/dist/src/blob/main.js")
    try:
        with open(path + ".why") as f:
            raise Skip(f.read().strip())
    except FileNotFoundError:
        raise Skip("Azurite is not there; run: tools/get-azurite %s" % BUILD) from None


def mac(text):
    return base64.b64encode(hmac.new(base64.b64decode(KEY), text.encode(), hashlib.sha256).digest()).decode()


class Azurite:
    def __init__(self, container="data"):
        self.program, self.container = find(), container

    def __enter__(self):
        self.log = open(os.path.join(os.environ.get("TEST_DIR", "/tmp"), "azurite.log"), "ab")
        for _ in range(5):
            self.port = free_port()
            self.endpoint = "http://127.0.0.1:%d/%s" % (self.port, ACCOUNT)
            self.process = subprocess.Popen(
                ["node", self.program, "--silent", "--inMemoryPersistence", "--blobPort", str(self.port)],
                stdin=subprocess.DEVNULL, stdout=self.log, stderr=self.log)
            if self.answers():
                self.call("PUT", self.container, query={"restype": "container"})
                return self
            self.stop()
        raise RuntimeError("Azurite does not start; see " + self.log.name)

    def answers(self):
        end = time.monotonic() + 40
        while time.monotonic() < end and self.process.poll() is None:
            try:
                self.call("GET", "", query={"comp": "list"})
                return True
            except OSError:
                time.sleep(0.05)
        return False

    def __exit__(self, *exc):
        self.stop()
        self.log.close()

    def stop(self):
        self.process.terminate()
        try:
            self.process.wait(10)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()

    def call(self, method, path, body=b"", query={}, **headers):
        path = "/" + ACCOUNT + "/" + urllib.parse.quote(path)
        sent = {"x-ms-date": time.strftime("%a, %d %b %Y %H:%M:%S GMT", time.gmtime()), "x-ms-version": VERSION}
        sent.update({k.replace("_", "-"): v for k, v in headers.items()})
        length = str(len(body)) if body else ""
        text = "\n".join([method, "", "", length, "", "", "", "", "", "", "", ""]) + "\n"
        text += "".join("%s:%s\n" % (k, sent[k]) for k in sorted(sent)) + "/" + ACCOUNT + path
        text += "".join("\n%s:%s" % (k, query[k]) for k in sorted(query))
        sent["Authorization"] = "SharedKey %s:%s" % (ACCOUNT, mac(text))
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=20)
        connection.request(method, path + ("?" + urllib.parse.urlencode(query) if query else ""), body, sent)
        answer = connection.getresponse()
        data = answer.read()
        connection.close()
        assert answer.status < 300, (method, path, answer.status, data)
        return answer.headers

    def put(self, key, data):
        """The ETag."""
        return self.call("PUT", self.container + "/" + key, data, x_ms_blob_type="BlockBlob")["etag"].strip('"')

    def delete(self, key):
        self.call("DELETE", self.container + "/" + key)

    def sas(self, permissions="rl", ends=3600):
        """An account SAS."""
        p = {"sv": VERSION, "ss": "b", "srt": "sco", "sp": permissions, "spr": "https,http",
             "se": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(time.time() + ends))}
        text = "\n".join([ACCOUNT, p["sp"], p["ss"], p["srt"], "", p["se"], "", p["spr"], p["sv"], "", ""])
        return urllib.parse.urlencode(dict(p, sig=mac(text)))

    def env(self, **more):
        return dict({"AZURE_STORAGE_KEY": KEY, "DLCACHE_ENDPOINT": self.endpoint}, **more)

    def sas_env(self, **kind):
        return {"AZURE_STORAGE_SAS_TOKEN": self.sas(**kind), "DLCACHE_ENDPOINT": self.endpoint}

    def connection_env(self):
        return {"AZURE_STORAGE_CONNECTION_STRING": "DefaultEndpointsProtocol=http;AccountName=%s;AccountKey=%s;"
                "BlobEndpoint=%s;" % (ACCOUNT, KEY, self.endpoint)}
