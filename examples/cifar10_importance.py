#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""CIFAR-10, drawn by what the network has yet to learn, with a plot that grows with each epoch.

    examples/cifar10_importance.py                        half of the data per epoch, all of it in four
    examples/cifar10_importance.py --limit 2000 --epochs 4          a minute on two cores
    examples/cifar10_importance.py --mode shade --replication auto  as SHADE does it
    examples/cifar10_importance.py --mode shuffle         the plain way, to compare with
    examples/cifar10_importance.py --plot run.svg         keep it open: it is drawn anew each epoch

The daemon keeps what is heavy in memory, so a small cache hits more often; start one with little
memory to see that (dlcache serve --memory 20MB). docs/importance.md says what it costs.
From a build tree: PYTHONPATH=build/python examples/cifar10_importance.py
"""
import os

import common
import torch
from cifar10 import DEVIATION, MEAN, network
from torch import nn
from torchvision import transforms

from dlcache.torch import DataLoader, Dataset, ImportanceSampler, Shuffle, plot


def options():
    parser = common.options(__doc__, data="cifar10", epochs=8)
    parser.add_argument("--mode", choices=("coverage", "shade", "shuffle"), default="coverage")
    parser.add_argument("--every", type=int, default=4,
                        help="coverage: each image at least once in so many epochs")
    parser.add_argument("--replication", default=1.0, help="shade: 0.5 to 100, or auto",
                        type=lambda s: s if s == "auto" else float(s))
    parser.set_defaults(plot="cifar10_importance.svg")
    return parser.parse_args()


def sampler_of(args, train):
    if args.mode == "shuffle":
        return Shuffle(train)
    more = {"replication": args.replication} if args.mode == "shade" else {"every": args.every}
    return ImportanceSampler(train, mode=args.mode, **more)


class Live:
    """Hits, coverage and accuracy by epoch: a line of text, and a picture that is drawn anew."""

    def __init__(self, path: str, title: str) -> None:
        self.path, self.title = path, title
        self.shares = {"accuracy": [], "coverage": [], "hits": [], "reused": []}

    def epoch(self, row, right: float) -> None:
        for name, value in (("accuracy", right / 100), ("coverage", row.coverage),
                            ("hits", row.hit_share), ("reused", row.reuse_share)):
            self.shares[name].append(value)
        print(f"epoch {row.epoch}: {right:.2f} % right, {100 * row.coverage:.1f} % of the images seen, "
              f"{100 * row.hit_share:.1f} % hits, {row.reads_per_distinct:.2f} bucket reads for each "
              f"image seen", flush=True)
        subtitle = f"{row.reads_per_distinct:.2f} bucket reads for each image seen in the last epoch"
        with open(self.path + ".new", "w", encoding="utf-8") as f:
            f.write(plot.lines(self.title, subtitle, self.shares))
        os.replace(self.path + ".new", self.path)


def main() -> None:
    args = options()
    torch.manual_seed(0)
    url, where = common.url_of(args), common.device()
    as_tensor = transforms.Compose([transforms.ToTensor(), transforms.Normalize(MEAN, DEVIATION)])
    augment = transforms.Compose([transforms.RandomCrop(32, padding=4),
                                  transforms.RandomHorizontalFlip(), as_tensor])
    train = common.limited(Dataset(url, "train", transform=augment), args.limit)
    test = common.limited(Dataset(url, "test", transform=as_tensor), args.limit)
    sampler = sampler_of(args, train)
    loader = DataLoader(train, args.batch_size, sampler=sampler, num_workers=args.workers,
                        epochs=args.epochs, progress=args.progress)
    test_loader = DataLoader(test, 500, num_workers=args.workers)

    model = network().to(where)
    optimizer = torch.optim.Adam(model.parameters(), args.lr)
    live = Live(args.plot, f"CIFAR-10, {args.mode}")
    for _ in range(args.epochs):
        for images, labels in loader:
            losses = nn.functional.cross_entropy(model(images.to(where)), labels.to(where),
                                                 reduction="none")
            optimizer.zero_grad()
            losses.mean().backward()
            optimizer.step()
            if args.mode != "shuffle":
                loader.learn(losses)  # of the batch in hand: each loss meets its image
        right = common.accuracy(model, test_loader, where)
        if args.mode != "shuffle":
            sampler.score(right)
        live.epoch(loader.report().by_epoch[-1], right)
    common.finish(loader, None)
    print(f"drawn: {args.plot}")


if __name__ == "__main__":
    main()
