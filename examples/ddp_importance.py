#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Ranks on one or several nodes train one model, drawn by what it has yet to learn.

    torchrun --nnodes 2 --nproc_per_node 4 ... examples/ddp_importance.py --url dlcache://cifar10
    examples/ddp_importance.py --ranks 2                  without torchrun, on one machine
    examples/ddp_importance.py --ranks 2 --sockets A,B --url dlcache://cifar10   two nodes on one machine
    examples/ddp_importance.py --mode shuffle             the plain way, to compare with

Each rank reads through the node on its machine. What a rank learns of a sample, the ranks of all nodes know
within a second or so: the nodes exchange weights through their manager, and each keeps in memory what will
probably be drawn again. GPUs are used if there are any (one for each rank), else CPUs and gloo.
docs/importance.md says what it costs, and where it does not pay.
From a build tree: PYTHONPATH=build/python examples/ddp_importance.py
"""
import os

import common
import torch
import torch.distributed as dist
from cifar10 import DEVIATION, MEAN, network
from ddp import start
from torch import nn
from torchvision import transforms

from dlcache.torch import DataLoader, Dataset, ImportanceSampler, Shuffle


def options():
    parser = common.options(__doc__, data="cifar10", epochs=4)
    parser.add_argument("--ranks", type=int, default=2, help="processes, when not under torchrun")
    parser.add_argument("--sockets", metavar="A,B", help="nodes that ranks use by turns (default: this machine's)")
    parser.add_argument("--mode", choices=("coverage", "shade", "shuffle"), default="coverage")
    return parser.parse_args()


def device(rank: int) -> torch.device:
    if not torch.cuda.is_available():
        return torch.device("cpu")
    local = int(os.environ.get("LOCAL_RANK", rank)) % torch.cuda.device_count()
    torch.cuda.set_device(local)
    return torch.device("cuda", local)


def train(args) -> None:
    """One rank."""
    rank, world = dist.get_rank(), dist.get_world_size()
    sockets = args.sockets.split(",") if args.sockets else [None]
    socket = sockets[rank % len(sockets)]
    torch.manual_seed(0)
    where = device(rank)
    as_tensor = transforms.Compose([transforms.ToTensor(), transforms.Normalize(MEAN, DEVIATION)])
    images = common.limited(Dataset(args.url, "train", transform=as_tensor, socket=socket), args.limit)
    # Both ask torch.distributed for rank and world; ranks of all nodes are one job, with weights in common.
    sampler = Shuffle(images) if args.mode == "shuffle" else ImportanceSampler(images, mode=args.mode)
    loader = DataLoader(images, args.batch_size // world, sampler=sampler, num_workers=args.workers,
                        epochs=args.epochs, progress=args.progress and rank == 0)
    local = network().to(where)
    model = nn.parallel.DistributedDataParallel(local)
    optimizer = torch.optim.Adam(model.parameters(), args.lr)
    for epoch in range(args.epochs):
        sampler.set_epoch(epoch)
        for pictures, labels in loader:
            losses = nn.functional.cross_entropy(model(pictures.to(where)), labels.to(where),
                                                 reduction="none")
            optimizer.zero_grad()
            losses.mean().backward()
            optimizer.step()
            if args.mode != "shuffle":
                loader.learn(losses)
        tell(epoch, rank, loader.report().by_epoch[-1], where)
    if rank == 0:
        test = common.limited(Dataset(args.url, "test", transform=as_tensor, socket=socket), args.limit)
        right = common.accuracy(local, DataLoader(test, 500, num_workers=args.workers), where)
        print(f"{right:.2f} % right")
        common.finish(loader, args.plot)


def tell(epoch: int, rank: int, row, where: torch.device) -> None:
    """One line for all ranks: samples that the epoch saw, and how many of them were hits."""
    reads = row.reuse + row.prefetch + row.waited
    sums = torch.tensor([row.positions, reads * row.hit_share], dtype=torch.float64, device=where)
    dist.all_reduce(sums)
    if rank == 0:
        print(f"epoch {epoch}: {int(sums[0])} samples on {dist.get_world_size()} ranks, "
              f"{100 * float(sums[1] / sums[0]):.1f} % hits", flush=True)


if __name__ == "__main__":
    start(options(), train)
