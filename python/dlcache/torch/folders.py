# SPDX-License-Identifier: Apache-2.0
"""DatasetFolder and ImageFolder: Dataset with the arguments of torchvision's classes."""
from __future__ import annotations

import os
from typing import Callable, Optional, Sequence, Union

from dlcache.torch.dataset import Dataset
from dlcache.torch.sources import folders_url_of

__all__ = ["DatasetFolder", "IMG_EXTENSIONS", "ImageFolder"]

IMG_EXTENSIONS = (".jpg", ".jpeg", ".png", ".ppm", ".bmp", ".pgm", ".tif", ".tiff", ".webp")


class DatasetFolder(Dataset):
    """Dataset with the arguments of torchvision.datasets.DatasetFolder.

    `root` is a URL or a path whose folders are classes. `loader` is called with a file to read, not
    with a path: PIL.Image.open, numpy.load, soundfile.read and most others take both. Folders
    without a file do not exist in a bucket, so `allow_empty` changes nothing.
    """

    def __init__(self, root: Union[str, os.PathLike], loader: Optional[Callable] = None,
                 extensions: Union[str, Sequence[str], None] = None,
                 transform: Optional[Callable] = None, target_transform: Optional[Callable] = None,
                 is_valid_file: Optional[Callable[[str], bool]] = None, allow_empty: bool = False,
                 **more):
        super().__init__(folders_url_of(root), transform=transform, loader=loader,
                         target_transform=target_transform, extensions=extensions,
                         is_valid_file=is_valid_file, **more)
        self.root = root


class ImageFolder(DatasetFolder):
    """Dataset with the arguments of torchvision.datasets.ImageFolder; the same items in order."""

    def __init__(self, root: Union[str, os.PathLike], transform: Optional[Callable] = None,
                 target_transform: Optional[Callable] = None, loader: Optional[Callable] = None,
                 is_valid_file: Optional[Callable[[str], bool]] = None, allow_empty: bool = False,
                 **more):
        more.setdefault("decode", "image")
        super().__init__(root, loader, IMG_EXTENSIONS if is_valid_file is None else None, transform,
                         target_transform, is_valid_file, allow_empty, **more)
