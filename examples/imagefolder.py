#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Any folder of images, one folder per class, and the import that changes.

    examples/imagefolder.py                                 fashion-mnist from tools/get-data
    examples/imagefolder.py --url s3://my-bucket/flowers/   train/CLASS/*, test/CLASS/*
    examples/imagefolder.py --plain                         torchvision and PyTorch's own loader

--plain runs the same training on torchvision.datasets.ImageFolder and torch.utils.data.DataLoader,
which can only read a file:// URL: compare the two.
From a build tree: PYTHONPATH=build/python examples/imagefolder.py
"""
import time
import urllib.parse

import common
import torch
from cifar10 import block
from torch import nn
from torchvision import transforms


def folder(url: str, name: str) -> str:
    """The folder `name` below a URL."""
    parts = urllib.parse.urlsplit(url)
    return parts._replace(path=parts.path.rstrip("/") + "/" + name + "/").geturl()


def network(classes: int) -> nn.Module:
    """For images of any size."""
    return nn.Sequential(block(3, 32), block(32, 64), block(64, 128), nn.AdaptiveAvgPool2d(2),
                         nn.Flatten(), nn.Linear(128 * 2 * 2, classes))


def main() -> None:
    parser = common.options(__doc__, data="fashion-mnist", lr=1e-3)
    parser.add_argument("--size", type=int, default=32, help="images are resized to so many pixels")
    parser.add_argument("--plain", action="store_true", help="PyTorch's own loader, to compare")
    args = parser.parse_args()
    torch.manual_seed(0)
    url = common.url_of(args)
    train_at, test_at = (folder(url, name) for name in ("train", "test"))

    if args.plain:
        from torch.utils.data import DataLoader
        from torchvision.datasets import ImageFolder
        if not train_at.startswith("file://"):
            parser.error(f"--plain reads files only: give a file:// URL, not {args.url}")
        train_at, test_at = (urllib.parse.unquote(urllib.parse.urlsplit(url).path)
                             for url in (train_at, test_at))
        workers = 2 if args.workers == "auto" else args.workers
    else:
        from dlcache.torch import DataLoader, ImageFolder
        workers = args.workers

    transform = transforms.Compose([transforms.Resize((args.size, args.size)),
                                    transforms.ToTensor(), transforms.Normalize(0.5, 0.5)])
    if url.startswith("dlcache://"):  # a name has no folders below it: its splits are these
        train, test = (ImageFolder(url, transform, split=name) for name in ("train", "test"))
    else:
        train, test = ImageFolder(train_at, transform), ImageFolder(test_at, transform)
    names = train.classes
    train, test = (common.limited(images, args.limit) for images in (train, test))
    loader = DataLoader(train, args.batch_size, shuffle=True, num_workers=workers)
    test_loader = DataLoader(test, 250, num_workers=workers)
    print(f"{len(names)} classes: {', '.join(names[:12])}{', ...' if len(names) > 12 else ''}")

    where = common.device()
    model = network(len(names)).to(where)
    optimizer = torch.optim.Adam(model.parameters(), args.lr)
    for epoch in range(args.epochs):
        start = time.monotonic()
        for images, labels in loader:
            loss = nn.functional.cross_entropy(model(images.to(where)), labels.to(where))
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        took = time.monotonic() - start
        print(f"epoch {epoch}: {took:.1f} s,"
              f" {common.accuracy(model, test_loader, where):.2f} % right", flush=True)
    if not args.plain:
        common.finish(loader, args.plot)


if __name__ == "__main__":
    main()
