#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Samples as bytes, without PyTorch: what is there, one sample, a batch, an epoch in a known order.

    examples/plain.py s3://my-bucket/pets/
    examples/plain.py file:///data/pets/

From a build tree: PYTHONPATH=build/python examples/plain.py URL
"""
import argparse
import zlib

import dlcache


def show(ds: dlcache.Dataset) -> None:
    print(f"{len(ds)} samples, {len(ds.classes)} classes, splits {', '.join(ds.splits) or 'none'}")
    for i in range(min(3, len(ds))):
        label = ds.label(i)
        name = "no class" if label is None else ds.classes[label]
        print(f"  {i}: {ds.keys[i]}, {ds.size(i)} bytes, {name}")


def batches(ds: dlcache.Dataset, size: int) -> None:
    """Batch after batch by number; each is asked for while the one before is in use."""
    numbers = range(len(ds))
    total = checksum = 0
    for first in range(0, len(ds), size):
        ds.prefetch(numbers[first + size:first + 2 * size])
        for view in ds.read_many(numbers[first:first + size]):
            with view:  # bytes in shared memory, not a copy; released here
                total += len(view)
                checksum = zlib.crc32(view, checksum)
    print(f"in order: {total} bytes, checksum {checksum:08x}")


def epochs(ds: dlcache.Dataset, count: int) -> None:
    """Shuffled epochs: the daemon knows what comes next and has it ready."""
    ds.follow("shuffled", seed=1, epochs=count)
    for epoch in range(count):
        total, first = 0, []
        for index, view in iter(ds.next, None):  # None at the end of an epoch
            with view:
                total += len(view)
            first.append(index)
        print(f"epoch {epoch}: {total} bytes, begins with {first[:5]}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("url", help="s3://, gs://, http(s):// or file://")
    parser.add_argument("--epochs", type=int, default=2)
    parser.add_argument("--batch-size", type=int, default=64)
    args = parser.parse_args()
    try:
        with dlcache.open(args.url) as ds:
            show(ds)
            batches(ds, args.batch_size)
            epochs(ds, args.epochs)
            print(ds.stats())
    except dlcache.Error as e:
        raise SystemExit(f"plain: {e}")


if __name__ == "__main__":
    main()
