# SPDX-License-Identifier: Apache-2.0
"""Types: mypy finds nothing, and the stub of the extension says what is there."""
import ast
import inspect
import os
import shutil
import subprocess
import unittest

import dlcache
from dlcache import _dlcache

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
PACKAGE = os.path.join(ROOT, "python/dlcache")


def stub():
    with open(PACKAGE + "/_dlcache.pyi") as f:
        return ast.parse(f.read())


def names(body):
    found = set()
    for node in body:
        if isinstance(node, (ast.FunctionDef, ast.ClassDef)):
            found.add(node.name)
        elif isinstance(node, ast.AnnAssign):
            found.add(node.target.id)
    return found


def own(thing):
    """Names that a module or class defines itself, less what every one has."""
    usual = set(dir(type("C", (), {}))) | {"__file__", "__loader__", "__name__", "__package__", "__spec__"}
    return {n for n in vars(thing) if n not in usual}


class Types(unittest.TestCase):
    @unittest.skipUnless(shutil.which("mypy"), "mypy is missing: tools/deps test")
    def test_mypy_strict(self):
        files = [os.path.join(PACKAGE, n) for n in sorted(os.listdir(PACKAGE)) if n.endswith((".py", ".pyi"))]
        cache = os.path.join(os.environ.get("TEST_DIR", "/tmp"), "mypy")
        done = subprocess.run(["mypy", "--strict", "--cache-dir", cache, *files, ROOT + "/python/backend.py"],
                              capture_output=True, text=True, cwd=ROOT, check=False)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)

    def test_stub_and_module_have_the_same_names(self):
        self.assertEqual(names(stub().body), own(_dlcache))

    def test_stub_and_classes_have_the_same_methods(self):
        classes = [n for n in stub().body if isinstance(n, ast.ClassDef)]
        self.assertEqual(len(classes), 4)
        for node in classes:
            self.assertEqual(names(node.body), own(getattr(_dlcache, node.name)), node.name)

    def test_public_methods_are_documented(self):
        for name, member in inspect.getmembers(dlcache.Dataset):
            if not name.startswith("_"):
                self.assertTrue(inspect.getdoc(member), name)

    def test_all_is_there(self):
        for name in dlcache.__all__:
            self.assertTrue(hasattr(dlcache, name), name)
        self.assertTrue(os.path.exists(os.path.join(os.path.dirname(dlcache.__file__), "py.typed")))


if __name__ == "__main__":
    unittest.main()
