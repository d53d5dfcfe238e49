#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Several processes train one model; one saves; any other number of them goes on from there.

    torchrun --nproc_per_node 4 examples/ddp.py           as usual; Debian 12's own torchrun fails
    examples/ddp.py --ranks 2                             the same without torchrun, on one machine
    examples/ddp.py --ranks 2 --checkpoint run.pt --stop 200        two ranks stop after 200 steps,
    examples/ddp.py --ranks 4 --checkpoint run.pt --resume          four go on in mid-epoch
    examples/ddp.py --sampler distributed                 with PyTorch's DistributedSampler

All ranks of a machine share one cache: each image is fetched once, not once per rank. The batch
size is that of all ranks together, so that a step means the same on any number of them.
From a build tree: PYTHONPATH=build/python examples/ddp.py
"""
import os
import socket

import common
import torch
import torch.distributed as dist
from mnist import network, save
from torch import nn
from torch.utils.data.distributed import DistributedSampler
from torchvision import transforms

from dlcache.torch import DataLoader, Dataset, Shuffle


def options():
    parser = common.options(__doc__, data="mnist")
    parser.add_argument("--ranks", type=int, default=2, help="processes, when not under torchrun")
    parser.add_argument("--sampler", choices=("shuffle", "distributed"), default="shuffle")
    parser.add_argument("--checkpoint", metavar="FILE", help="save here at the end of every epoch")
    parser.add_argument("--stop", type=int, metavar="N", help="save and end after N steps")
    parser.add_argument("--resume", action="store_true", help="go on from --checkpoint")
    args = parser.parse_args()
    if (args.resume or args.stop) and not args.checkpoint:
        parser.error("--resume and --stop need a --checkpoint FILE; name it")
    return args


def train(args) -> None:
    """One rank."""
    rank, world = dist.get_rank(), dist.get_world_size()
    if args.batch_size % world:
        raise SystemExit(f"--batch-size {args.batch_size} does not divide by {world} ranks")
    torch.manual_seed(0)
    as_tensor = transforms.Compose([transforms.Grayscale(), transforms.ToTensor(),
                                    transforms.Normalize(0.13, 0.31)])
    images = common.limited(Dataset(args.url, "train", transform=as_tensor), args.limit)
    if args.sampler == "shuffle":
        sampler = Shuffle(images, seed=0)  # asks torch.distributed for rank and world
    else:
        sampler = DistributedSampler(images, seed=0)
    loader = DataLoader(images, args.batch_size // world, sampler=sampler, num_workers=args.workers,
                        epochs=args.epochs, progress=args.progress and rank == 0)

    local = network()
    model = nn.parallel.DistributedDataParallel(local)
    optimizer = torch.optim.Adam(model.parameters(), args.lr)
    first = 0
    if args.resume:
        saved = torch.load(args.checkpoint)
        local.load_state_dict(saved["model"])
        optimizer.load_state_dict(saved["optimizer"])
        loader.load_state_dict(saved["loader"])  # the same state for every rank
        first = saved["epoch"]

    steps = 0
    for epoch in range(first, args.epochs):
        sampler.set_epoch(epoch)
        seen = torch.zeros(1)
        for pictures, labels in loader:
            loss = nn.functional.cross_entropy(model(pictures), labels)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            steps += 1
            seen += len(labels)
            if steps == args.stop:
                break
        stopped = steps == args.stop
        if args.checkpoint and rank == 0:
            save(args.checkpoint, epoch if stopped else epoch + 1, local, optimizer, loader)
        dist.all_reduce(seen)
        if rank == 0:
            print(f"epoch {epoch}: {int(seen)} samples on {world} ranks, loss {loss.item():.3f}"
                  + (", stopped" if stopped else ""), flush=True)
        if stopped:
            return
    if rank == 0:
        test = common.limited(Dataset(args.url, "test", transform=as_tensor), args.limit)
        right = common.accuracy(local, DataLoader(test, 500, num_workers=args.workers),
                                torch.device("cpu"))
        print(f"{right:.2f} % right")
        common.finish(loader, args.plot)


def one_rank(rank: int, args, work) -> None:
    """What torchrun does for each process."""
    os.environ.update(RANK=str(rank), WORLD_SIZE=str(args.ranks))
    run(args, work)


def run(args, work) -> None:
    dist.init_process_group("gloo")
    try:
        work(args)
    finally:
        dist.destroy_process_group()


def start(args, work) -> None:
    """work(args) in every rank: this process is one under torchrun; else there are --ranks of them."""
    args.url = common.url_of(args)
    if "RANK" in os.environ:  # under torchrun
        return run(args, work)
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT=str(port))
    torch.multiprocessing.start_processes(one_rank, (args, work), args.ranks, start_method="fork")


if __name__ == "__main__":
    start(options(), train)
