# SPDX-License-Identifier: Apache-2.0
"""dlcache for PyTorch: Dataset and DataLoader. Needs torch 1.13 or later."""

from dlcache.torch.dataset import Dataset, DatasetFolder, ImageFolder, source_of
from dlcache.torch.loader import DataLoader
from dlcache.torch.partitions import Partitions
from dlcache.torch.report import Report
from dlcache.torch.samplers import Shuffle

__all__ = ["DataLoader", "Dataset", "DatasetFolder", "ImageFolder", "Partitions", "Report",
           "Shuffle", "source_of"]
