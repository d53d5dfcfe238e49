#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Digits: 60,000 images straight from a bucket, over 97 % after one epoch.

    examples/mnist.py                                     data from tools/get-data
    examples/mnist.py --url s3://my-bucket/mnist/         the same from a bucket
    examples/mnist.py --epochs 3 --checkpoint run.pt      saves as it goes; Ctrl-C when you like,
    examples/mnist.py --epochs 3 --checkpoint run.pt --resume    and go on with the very next batch

From a build tree: PYTHONPATH=build/python examples/mnist.py
"""
import os

import common
import torch
from torch import nn
from torchvision import transforms

from dlcache.torch import DataLoader, Dataset


def network() -> nn.Module:
    return nn.Sequential(
        nn.Conv2d(1, 16, 5, stride=2, padding=2), nn.ReLU(),
        nn.Conv2d(16, 32, 3, stride=2, padding=1), nn.ReLU(),
        nn.Flatten(), nn.Linear(32 * 7 * 7, 128), nn.ReLU(), nn.Linear(128, 10))


def save(path, epoch, model, optimizer, loader) -> None:
    """All or nothing: a crash while saving leaves the checkpoint before."""
    torch.save({"epoch": epoch, "model": model.state_dict(), "optimizer": optimizer.state_dict(),
                "loader": loader.state_dict()}, path + ".new")
    os.replace(path + ".new", path)


def main() -> None:
    parser = common.options(__doc__, data="mnist")
    parser.add_argument("--checkpoint", metavar="FILE", help="save model, optimizer and loader here")
    parser.add_argument("--every", type=int, default=100, help="steps between checkpoints")
    parser.add_argument("--resume", action="store_true", help="go on from --checkpoint")
    args = parser.parse_args()
    if args.resume and not args.checkpoint:
        parser.error("--resume goes on from a --checkpoint FILE; name it")

    torch.manual_seed(0)
    url, where = common.url_of(args), common.device()
    as_tensor = transforms.Compose([transforms.Grayscale(), transforms.ToTensor(),
                                    transforms.Normalize(0.13, 0.31)])
    train = common.limited(Dataset(url, "train", transform=as_tensor), args.limit)
    test = common.limited(Dataset(url, "test", transform=as_tensor), args.limit)
    loader = DataLoader(train, args.batch_size, shuffle=True, num_workers=args.workers,
                        epochs=args.epochs, progress=args.progress)
    test_loader = DataLoader(test, 500, num_workers=args.workers)

    model = network().to(where)
    optimizer = torch.optim.Adam(model.parameters(), args.lr)
    first = 0
    if args.resume:
        saved = torch.load(args.checkpoint, map_location=where)
        model.load_state_dict(saved["model"])
        optimizer.load_state_dict(saved["optimizer"])
        loader.load_state_dict(saved["loader"])
        first = saved["epoch"]

    for epoch in range(first, args.epochs):
        batches = 0
        for step, (images, labels) in enumerate(loader, 1):
            loss = nn.functional.cross_entropy(model(images.to(where)), labels.to(where))
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            batches = step
            if args.checkpoint and step % args.every == 0:
                save(args.checkpoint, epoch, model, optimizer, loader)
        print(f"epoch {epoch}: {batches} batches,"
              f" {common.accuracy(model, test_loader, where):.2f} % right", flush=True)
    common.finish(loader, args.plot)


if __name__ == "__main__":
    main()
