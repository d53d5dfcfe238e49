#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Small photographs in ten classes, with random crops and flips.

    examples/cifar10.py                                   data from tools/get-data
    examples/cifar10.py --url s3://my-bucket/cifar10/     the same from a bucket
    examples/cifar10.py --epochs 10 --plot cifar10.svg

Transforms run in workers; how many is found out while training runs. The images of random
transforms are the same in every run with the same seed, whatever the number of workers.
From a build tree: PYTHONPATH=build/python examples/cifar10.py
"""
import common
import torch
from torch import nn
from torchvision import transforms

from dlcache.torch import DataLoader, Dataset

MEAN, DEVIATION = (0.491, 0.482, 0.447), (0.247, 0.243, 0.262)


def block(before: int, after: int) -> nn.Module:
    return nn.Sequential(nn.Conv2d(before, after, 3, stride=2, padding=1, bias=False),
                         nn.BatchNorm2d(after), nn.ReLU())


def network() -> nn.Module:
    return nn.Sequential(block(3, 32), block(32, 64), block(64, 128), nn.Flatten(),
                         nn.Linear(128 * 4 * 4, 10))


def main() -> None:
    args = common.options(__doc__, data="cifar10", epochs=2).parse_args()
    torch.manual_seed(0)
    url, where = common.url_of(args), common.device()
    as_tensor = transforms.Compose([transforms.ToTensor(), transforms.Normalize(MEAN, DEVIATION)])
    augment = transforms.Compose([transforms.RandomCrop(32, padding=4),
                                  transforms.RandomHorizontalFlip(), as_tensor])
    train = common.limited(Dataset(url, "train", transform=augment), args.limit)
    test = common.limited(Dataset(url, "test", transform=as_tensor), args.limit)
    pin = where.type == "cuda"
    loader = DataLoader(train, args.batch_size, shuffle=True, num_workers=args.workers,
                        pin_memory=pin, epochs=args.epochs, progress=args.progress)
    test_loader = DataLoader(test, 500, num_workers=args.workers, pin_memory=pin)

    model = network().to(where)
    optimizer = torch.optim.Adam(model.parameters(), args.lr)
    for epoch in range(args.epochs):
        for images, labels in loader:
            images, labels = (t.to(where, non_blocking=pin) for t in (images, labels))
            loss = nn.functional.cross_entropy(model(images), labels)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        print(f"epoch {epoch}: {common.accuracy(model, test_loader, where):.2f} % right", flush=True)
    common.finish(loader, args.plot)


if __name__ == "__main__":
    main()
