# SPDX-License-Identifier: Apache-2.0
"""Builds the wheel and the source archive: PEP 517, with nothing but the standard library.

    pip install .                                       a build of its own in a temporary directory
    pip install . --config-settings=setup-args=-Doptimization=0
                                                        the same, with an argument for `meson setup`

A wheel holds the package, the extension (stable ABI: one for CPython 3.11 and later), the program as
dlcache/bin/dlcache, where the extension looks for it, and a script `dlcache` that runs it. Metadata
come from pyproject.toml, the version from meson.build. Meson and ninja are asked for only if they are
not there, so that no network is needed.

(WHEEL-1) Equal sources and compilers give equal wheels: names are sorted, times are constant.
"""
from __future__ import annotations

import base64
import hashlib
import io
import os
import re
import shutil
import subprocess
import sys
import sysconfig
import tarfile
import tempfile
import tomllib
import zipfile
from typing import Any, Optional

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
EPOCH = (1980, 1, 1, 0, 0, 0)  # the first that a zip file can say
EXTENSION, PROGRAM = "python/dlcache/_dlcache.abi3.so", "src/cli/dlcache"

Settings = Optional[dict[str, Any]]


# ---- metadata ----

def _text(path: str) -> str:
    with open(os.path.join(ROOT, path), encoding="utf-8") as f:
        return f.read()


def _project() -> dict[str, Any]:
    project: dict[str, Any] = tomllib.loads(_text("pyproject.toml"))["project"]
    found = re.search(r"^\s*version: '([^']+)'", _text("meson.build"), re.M)
    if found is None:
        raise RuntimeError("meson.build names no version")
    project["version"] = found.group(1)
    return project


def _metadata(project: dict[str, Any]) -> str:
    lines = ["Metadata-Version: 2.1", "Name: " + project["name"], "Version: " + project["version"],
             "Summary: " + project["description"], "License: " + project["license"]["text"],
             "Keywords: " + ",".join(project["keywords"]),
             "Requires-Python: " + project["requires-python"]]
    lines += ["Classifier: " + c for c in project["classifiers"]]
    for extra, needs in project["optional-dependencies"].items():
        lines.append("Provides-Extra: " + extra)
        lines += [f'Requires-Dist: {need}; extra == "{extra}"' for need in needs]
    lines += ["Description-Content-Type: text/markdown", "", _text(project["readme"])]
    return "\n".join(lines)


def _tag() -> str:
    return "cp311-abi3-" + re.sub(r"[-.]", "_", sysconfig.get_platform())


def _dist_info(project: dict[str, Any]) -> dict[str, bytes]:
    scripts = "".join(f"{name} = {what}\n" for name, what in project["scripts"].items())
    wheel = f"Wheel-Version: 1.0\nGenerator: dlcache\nRoot-Is-Purelib: false\nTag: {_tag()}\n"
    return {"METADATA": _metadata(project).encode(), "WHEEL": wheel.encode(),
            "LICENSE": _text("LICENSE").encode(),
            "entry_points.txt": ("[console_scripts]\n" + scripts).encode()}


def _info_name(project: dict[str, Any]) -> str:
    return f"{project['name']}-{project['version']}.dist-info"


# ---- building ----

def _works(tool: str, env: dict[str, str]) -> bool:
    path = shutil.which(tool)
    return path is not None and subprocess.run([path, "--version"], env=env, check=False,
                                               capture_output=True).returncode == 0


def _environment(tool: str) -> Optional[dict[str, str]]:
    """In which a tool runs, or None. The system's meson does not in pip's isolated environment."""
    plain = {k: v for k, v in os.environ.items() if k not in ("PYTHONPATH", "PYTHONNOUSERSITE")}
    return next((env for env in (dict(os.environ), plain) if _works(tool, env)), None)


def _run(tool: str, *args: str) -> None:
    env = _environment(tool)
    if env is None:
        raise RuntimeError(f"{tool} is missing; install it by your system's packages or by pip")
    path = shutil.which(tool)
    assert path is not None
    if subprocess.run([path, *args], env=env, check=False).returncode != 0:
        raise RuntimeError(f"{tool} failed; what it said is above (with pip: -v). What is needed is "
                           "listed by tools/deps in the sources")


def _setup_args(settings: Settings) -> list[str]:
    args = (settings or {}).get("setup-args", [])
    args = [args] if isinstance(args, str) else args
    include = sysconfig.get_paths()["include"]
    if os.path.exists(os.path.join(include, "Python.h")):
        args = ["-Dpython_include=" + include, *args]
    return ["-Dpython=enabled", "-Doptimization=2", "-Ddebug=false", "-Dwerror=false", *args]


def _build(directory: str, settings: Settings) -> None:
    _run("meson", "setup", directory, ROOT, *_setup_args(settings))
    _run("ninja", "-C", directory, EXTENSION, PROGRAM)


def _package() -> dict[str, str]:
    """{name in the wheel: path} of the files that are not built."""
    top, found = os.path.join(ROOT, "python"), {}
    for here, _, names in os.walk(os.path.join(top, "dlcache")):
        for name in names:
            if name.endswith((".py", ".pyi", "py.typed")):
                path = os.path.join(here, name)
                found[os.path.relpath(path, top)] = path
    return found


# ---- the wheel ----

def _digest(data: bytes) -> str:
    value = base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()
    return f"sha256={value},{len(data)}"


def _write_wheel(path: str, files: dict[str, tuple[bytes, int]], info: str) -> None:
    record = "".join(f"{name},{_digest(data)}\n" for name, (data, _) in files.items())
    files[info + "/RECORD"] = (f"{record}{info}/RECORD,,\n".encode(), 0o644)
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as z:
        for name, (data, mode) in files.items():
            entry = zipfile.ZipInfo(name, EPOCH)
            entry.external_attr = (0o100000 | mode) << 16
            entry.compress_type = zipfile.ZIP_DEFLATED
            z.writestr(entry, data)


def _read(path: str) -> bytes:
    with open(path, "rb") as f:
        return f.read()


def build_wheel(wheel_directory: str, config_settings: Settings = None,
                metadata_directory: Optional[str] = None) -> str:
    project = _project()
    info = _info_name(project)
    name = f"{project['name']}-{project['version']}-{_tag()}.whl"
    with tempfile.TemporaryDirectory(prefix="dlcache-build-") as build:
        _build(build, config_settings)
        files = {n: (_read(p), 0o644) for n, p in sorted(_package().items())}
        files["dlcache/_dlcache.abi3.so"] = (_read(os.path.join(build, EXTENSION)), 0o755)
        files["dlcache/bin/dlcache"] = (_read(os.path.join(build, PROGRAM)), 0o755)
    files.update({f"{info}/{n}": (data, 0o644) for n, data in _dist_info(project).items()})
    _write_wheel(os.path.join(wheel_directory, name), files, info)
    return name


def prepare_metadata_for_build_wheel(metadata_directory: str, config_settings: Settings = None) -> str:
    project = _project()
    info = _info_name(project)
    os.makedirs(os.path.join(metadata_directory, info))
    for name, data in _dist_info(project).items():
        with open(os.path.join(metadata_directory, info, name), "wb") as f:
            f.write(data)
    return info


def get_requires_for_build_wheel(config_settings: Settings = None) -> list[str]:
    return [tool for tool in ("meson", "ninja") if _environment(tool) is None]


# ---- the source archive ----

def _sources() -> list[str]:
    """Files of the source tree: what git knows, or all of an unpacked archive but builds."""
    git = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, check=False)
    if git.returncode == 0 and git.stdout:
        return sorted(os.fsdecode(n) for n in git.stdout.split(b"\0") if n)
    found = []
    for here, subdirs, names in os.walk(ROOT):
        subdirs[:] = [d for d in subdirs if d in (".ci", ".github")
                      or not d.startswith(("build", ".", "__pycache__"))]
        found += [os.path.relpath(os.path.join(here, n), ROOT) for n in names if n != "PKG-INFO"]
    return sorted(found)


def build_sdist(sdist_directory: str, config_settings: Settings = None) -> str:
    project = _project()
    base = f"{project['name']}-{project['version']}"
    metadata = _metadata(project).encode()
    with tarfile.open(os.path.join(sdist_directory, base + ".tar.gz"), "w:gz") as tar:
        for name in _sources():
            if os.path.lexists(os.path.join(ROOT, name)):
                tar.add(os.path.join(ROOT, name), f"{base}/{name}", recursive=False)
        entry = tarfile.TarInfo(base + "/PKG-INFO")
        entry.size = len(metadata)
        tar.addfile(entry, io.BytesIO(metadata))
    return base + ".tar.gz"


if __name__ == "__main__":
    # python3 python/backend.py [DIRECTORY [ARGUMENT OF meson setup...]]
    print(build_wheel(sys.argv[1] if len(sys.argv) > 1 else ".", {"setup-args": sys.argv[2:]}))
