# SPDX-License-Identifier: Apache-2.0
"""dlcache for PyTorch: Dataset and DataLoader; ImageLoader, AudioLoader and TensorLoader. Needs torch
1.13 or later."""

from dlcache.torch.dataset import Dataset, DatasetFolder, ImageFolder, source_of
from dlcache.torch.loader import DataLoader
from dlcache.torch.native_loaders import AudioLoader, ImageLoader, LoaderReport, TensorLoader
from dlcache.torch.order.importance import Figures, ImportanceSampler
from dlcache.torch.order.samplers import Shuffle
from dlcache.torch.partitions import Partitions
from dlcache.torch.report import Report
from dlcache.torch.transforms import (CenterCrop, ColorJitter, HorizontalFlip, Normalize,
                                      RandomResizedCrop, Resize)

__all__ = ["AudioLoader", "CenterCrop", "ColorJitter", "DataLoader", "Dataset", "DatasetFolder",
           "Figures", "HorizontalFlip", "ImageFolder", "ImageLoader", "ImportanceSampler",
           "LoaderReport", "Normalize", "Partitions",
           "RandomResizedCrop", "Report", "Resize", "Shuffle", "TensorLoader", "source_of"]
