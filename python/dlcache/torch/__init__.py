# SPDX-License-Identifier: Apache-2.0
"""dlcache for PyTorch: Dataset and DataLoader; ImageLoader, AudioLoader and TensorLoader. Needs
torch 1.13 or later."""

from dlcache.torch.dataset import Dataset
from dlcache.torch.folders import DatasetFolder, ImageFolder
from dlcache.torch.loader import DataLoader
from dlcache.torch.native_loaders import AudioLoader, ImageLoader, LoaderReport, TensorLoader
from dlcache.torch.order.importance import ImportanceFigures, ImportanceSampler
from dlcache.torch.order.samplers import Shuffle
from dlcache.torch.partitions import Partitions
from dlcache.torch.report import Report
from dlcache.torch.sources import source_of
from dlcache.torch.transforms import (CenterCrop, ColorJitter, HorizontalFlip, Normalize,
                                      RandomResizedCrop, Resize)

__all__ = ["AudioLoader", "CenterCrop", "ColorJitter", "DataLoader", "Dataset", "DatasetFolder",
           "HorizontalFlip", "ImageFolder", "ImageLoader", "ImportanceFigures", "ImportanceSampler",
           "LoaderReport", "Normalize", "Partitions", "RandomResizedCrop", "Report", "Resize",
           "Shuffle", "TensorLoader", "source_of"]
