# SPDX-License-Identifier: Apache-2.0
"""The command line against a manager of manager.py.

    with manager.Manager() as m:
        c = ctlcli.Cli(m)
        c("tenant", "ls").out                        as admin, by TCP
        c("dataset", "ls", token=ann, status=1)      as somebody else
"""
import dl


class Cli:
    def __init__(self, m):
        self.m = m

    def __call__(self, *args, token=None, env=None, **how):
        env = dict({"DLCACHE_DIR": self.m.dir, "DLCACHE_MANAGER": "http://" + self.m.address,
                    "DLCACHE_SOCKET": dl.path("no-daemon"), "AWS_EC2_METADATA_DISABLED": "true"}, **(env or {}))
        if token is not None:
            env["DLCACHE_TOKEN"] = token
        return dl.cli(*args, env=env, **how)

    def secret(self, *args, **how):
        """A command that prints a token, once: a secret from now on."""
        token = self(*args, **how).out.strip()
        assert token.startswith("dlc_") and "\n" not in token
        dl.SECRETS.add(token)
        return token


class Node:
    """A node that does nothing but join and beat; what it was told is in `commands`."""

    def __init__(self, m, name, **join):
        self.m, self.name, self.commands = m, name, []
        m.ok("PUT", "/v1/nodes/" + name,
             dict({"address": "http://10.0.0.1:80", "capacity": 10 ** 9, "memory": 10 ** 8, "gpus": 2}, **join), token="node")
        self.beat()

    def beat(self, **more):
        self.commands = self.m.beat(self.name, **more)["commands"]
        return self.commands

    def command(self, op):
        """The command of this kind that it has, when it has come."""
        return dl.wait_for(lambda: next((o for o in self.beat() if o["op"] == op), None), what="a command to " + op)

    def done(self, command, **word):
        self.beat(commands_done=[dict({"id": command["id"]}, **word)])
