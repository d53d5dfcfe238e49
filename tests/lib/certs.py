# SPDX-License-Identifier: Apache-2.0
"""Certificates for clients that are not nodes of dlcache: signed by the manager, or by a CA of the test's own.

    key, cert, ca = certs.joined(manager, "x")      paths; x has joined with the token of nodes
    key, cert, ca = certs.forged("b")               the same name, of another authority
    certs.served(address, "b", key, cert, ca)       is GET /v1/health answered there?
"""
import base64
import http.client
import itertools
import socket
import ssl
import subprocess

import dl

serial = itertools.count()
DOMAIN = ".node.dlcache.internal"


def openssl(*args):
    subprocess.run(["openssl", *args], check=True, capture_output=True)


def write(name, text):
    path = dl.path(name)
    with open(path, "w") as f:
        f.write(text)
    return path


def request(name):
    """(path of a new key, request for a certificate as the manager takes it)"""
    n = next(serial)
    key, req = dl.path("x-%s-%d.key" % (name, n)), dl.path("x-%s-%d.req" % (name, n))
    openssl("req", "-new", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-subj", "/CN=" + name,
            "-keyout", key, "-outform", "DER", "-out", req)
    with open(req, "rb") as f:
        return key, base64.b64encode(f.read()).decode()


def joined(manager, name, **more):
    key, req = request(name)
    got = manager.ok("PUT", "/v1/nodes/" + name, dict({"address": "", "capacity": 0, "instance": "i-" + name,
                                                       "certificate_request": req}, **more), token="node").json["certificate"]
    return key, write("x-%s.pem" % name, got["chain"]), write("x-%s.ca" % name, got["authorities"])


def forged(name):
    ca, cert = dl.path("forged-ca"), dl.path("forged-" + name)
    openssl("req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-days", "2",
            "-subj", "/CN=dlcache cluster", "-keyout", ca + ".key", "-out", ca + ".pem")
    openssl("req", "-new", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-subj", "/CN=" + name,
            "-keyout", cert + ".key", "-out", cert + ".req")
    write("forged.ext", "subjectAltName=DNS:%s%s\nextendedKeyUsage=serverAuth,clientAuth\n" % (name, DOMAIN))
    openssl("x509", "-req", "-in", cert + ".req", "-CA", ca + ".pem", "-CAkey", ca + ".key", "-CAcreateserial", "-days", "2",
            "-extfile", dl.path("forged.ext"), "-out", cert + ".pem")
    return cert + ".key", cert + ".pem", ca + ".pem"


def ask(address, node, key=None, cert=None, ca=None, path="/v1/health", token=None):
    """Status of a GET from the peer server of a node; None: it does not answer. Without ca its certificate is not looked at."""
    context = ssl.create_default_context(cafile=ca) if ca else ssl._create_unverified_context()
    if cert:
        context.load_cert_chain(cert, key)
    host, port = address.rsplit(":", 1)
    try:
        with socket.create_connection((host, int(port)), 20) as plain, \
                context.wrap_socket(plain, server_hostname=node + DOMAIN) as s:
            s.settimeout(20)
            conn = http.client.HTTPConnection(host)
            conn.sock = s
            conn.request("GET", path, headers={"Authorization": "Bearer " + token} if token else {})
            return conn.getresponse().status
    except (ssl.SSLError, ConnectionError, http.client.HTTPException):
        return None


def address_of(node):
    return node.log().split("peers are served at ")[-1].split()[0]


def issuer(cert):
    got = subprocess.run(["openssl", "x509", "-noout", "-issuer", "-in", cert], check=True, capture_output=True, text=True)
    return got.stdout.strip()
