# SPDX-License-Identifier: Apache-2.0
"""DatasetFolder and ImageFolder: Dataset with the arguments of torchvision's classes.

Classes are folders. The catalog has them where it was made with layout=folders, and the daemon
makes such a catalog of any URL. A dataset that a manager knows has the catalog it was registered
with: if that has no labels, they are made here, of the keys.
"""
from __future__ import annotations

import array
import os
import urllib.parse
from typing import Any, Callable, Dict, List, Optional, Sequence, Union

import dlcache
from dlcache.torch.dataset import Dataset
from dlcache.torch.sources import split_of

__all__ = ["DatasetFolder", "IMG_EXTENSIONS", "ImageFolder"]

IMG_EXTENSIONS = (".jpg", ".jpeg", ".png", ".ppm", ".bmp", ".pgm", ".tif", ".tiff", ".webp")
ARCHIVES = (".tar", ".tar.gz", ".tgz", ".tar.bz2", ".tbz2", ".tbz", ".tar.xz", ".txz", ".tar.zst",
            ".tzst", ".zip")


class DatasetFolder(Dataset):
    """Dataset with the arguments of torchvision.datasets.DatasetFolder.

    `root` is a URL or a path whose folders are classes, or the dlcache://NAME of one. `loader` is called with a file to read, not
    with a path: PIL.Image.open, numpy.load, soundfile.read and most others take both. Folders
    without a file do not exist in a bucket, so `allow_empty` changes nothing.
    """

    def __init__(self, root: Union[str, os.PathLike], loader: Optional[Callable] = None,
                 extensions: Union[str, Sequence[str], None] = None,
                 transform: Optional[Callable] = None, target_transform: Optional[Callable] = None,
                 is_valid_file: Optional[Callable[[str], bool]] = None, allow_empty: bool = False,
                 **more):
        self._classes: Optional[List[str]] = None  # None: the catalog has them
        super().__init__(root, transform=transform, loader=loader,
                         target_transform=target_transform, extensions=extensions,
                         is_valid_file=is_valid_file, **more)

    def _first_open(self, options: Dict[str, Any]) -> dlcache.Dataset:
        plain = self.url
        if plain.startswith("dlcache://") or "layout=" in plain:
            return super()._first_open(options)
        self.url = _with_folders(plain)
        try:
            return super()._first_open(options)
        except dlcache.NotFoundError:  # a manager may know it, with another layout
            self.url = plain
            return super()._first_open(options)

    def _process(self) -> None:
        handle = self._open()
        if handle.labels is None and len(handle) > 0 and handle.target(0) is None:
            self._classify(handle)
        super()._process()

    def _classify(self, handle: dlcache.Dataset) -> None:
        """Make the folders of the keys the classes, as layout=folders does, in the same order."""
        below = urllib.parse.urlsplit(handle.location).path.lstrip("/")
        folders = {_folder(handle.key(n), below) for n in split_of(handle, self.split)} - {""}
        if not folders and _archive(handle.key(0)):
            return  # groups that have their class with them, or members of archives without folders
        self._classes = sorted(folders)
        if not self._classes:
            raise FileNotFoundError("there is no class folder in %s: keys are like %r"
                                    % (self.url, handle.key(0)))
        index = self.class_to_idx
        rows = []
        for n in self._numbers:
            key = handle.key(n)
            folder = _folder(key, below)
            if folder:
                rows.append((folder, *os.path.split(key), n))
        rows.sort()
        self._numbers = array.array("q", (row[-1] for row in rows))
        self._given = [index[row[0]] for row in rows]

    @property
    def classes(self) -> List[str]:
        return super().classes if self._classes is None else list(self._classes)

    @property
    def class_to_idx(self) -> Dict[str, int]:
        return {name: k for k, name in enumerate(self.classes)}


def _with_folders(url: str) -> str:
    name = "dlcache-layout" if url.startswith("http") else "layout"
    return "%s%s%s=folders" % (url, "&" if "?" in url else "?", name)


def _archive(key: str) -> str:
    """The part of a key up to the archive that it is a member of; "" if it is not."""
    parts = key.split("/")
    for k, part in enumerate(parts[:-1]):
        if part.endswith(ARCHIVES):
            return "/".join(parts[:k + 1]) + "/"
    return ""


def _folder(key: str, below: str) -> str:
    """The folder of a key directly below the dataset's URL, or in its archive; "" for a key in none."""
    below = _archive(key) or below
    if key.startswith(below):
        key = key[len(below):]
    return key.partition("/")[0] if "/" in key else ""


class ImageFolder(DatasetFolder):
    """Dataset with the arguments of torchvision.datasets.ImageFolder; the same items in order."""

    def __init__(self, root: Union[str, os.PathLike], transform: Optional[Callable] = None,
                 target_transform: Optional[Callable] = None, loader: Optional[Callable] = None,
                 is_valid_file: Optional[Callable[[str], bool]] = None, allow_empty: bool = False,
                 **more):
        more.setdefault("decode", "image")
        super().__init__(root, loader, IMG_EXTENSIONS if is_valid_file is None else None, transform,
                         target_transform, is_valid_file, allow_empty, **more)
