# SPDX-License-Identifier: Apache-2.0
"""Importance on a GPU: ResNet-18 on CIFAR-10 from a bucket 53 ms away, for the same time each.

8,192 samples of CIFAR-10, memory for a fifth of them, our ImageLoader, bf16, batches of 256. known-order,
shade-1, shade-3 and coverage as in bench/importance.py; then known-order and coverage from a bucket
that serves 64 requests at a time (1,200 per second). The learning rate falls with the time, to 0 at
its end. Accuracy on 2,048 test samples when the seconds are over.

The GPU machine needs PyTorch and torchvision, no network and no compiler:

    python3 bench/importance_gpu.py pack build bundle     here, after `tools/get-data cifar10`
    python3 bundle/bench/importance_gpu.py run bundle     there: the table, and one line of JSON
"""
import json
import lzma
import os
import shutil
import subprocess
import sys
import time

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [HERE, os.path.join(os.path.dirname(HERE), "tests", "lib")]

from common import apart, daemon, far, median, scratch, stat, table  # noqa: E402
import gpu  # noqa: E402

LATENCY_MS, BATCH, SAMPLES, TESTS, SHARE, SECONDS, WARM = 53, 256, 8_192, 2_048, 0.2, 26.0, 2
CELLS = (("known-order", 3, None), ("shade-1", 1, None), ("shade-3", 1, None), ("coverage", 3, None),
         ("known-order", 2, 64), ("coverage", 2, 64))
FILES = ("bench/common.py", "bench/gpu.py", "bench/importance_gpu.py", "tests/lib/s3server.py",
         "tests/lib/hosts_local.py")


# ---- packing ----

def some(path, count):
    """Files evenly from all below a folder, as (class, path)."""
    keys = sorted(os.path.relpath(os.path.join(here, f), path)
                  for here, _, names in os.walk(path) for f in names)
    return [keys[i * len(keys) // count] for i in range(count)]


def pack(build, bundle):
    gpu.pack(build, bundle)
    root = os.path.dirname(HERE)
    for name in FILES:
        os.makedirs(os.path.dirname(os.path.join(bundle, name)), exist_ok=True)
        shutil.copy2(os.path.join(root, name), os.path.join(bundle, name))
    shutil.copy2(os.path.join(build, "bench", "bench-delay-proxy"), os.path.join(bundle, "bin"))
    os.makedirs(os.path.join(bundle, "real"), exist_ok=True)
    server = os.path.join(bundle, "real", "versitygw")
    subprocess.run(["strip", os.path.join(build, "real", "versitygw"), "-o", server], check=True)
    with open(server, "rb") as f, lzma.open(server + ".xz", "wb", preset=6) as to:
        shutil.copyfileobj(f, to)
    os.unlink(server)
    shutil.copy2(os.path.join(build, "real", "versitygw.version"), os.path.join(bundle, "real"))
    for split, count in (("train", SAMPLES), ("test", TESTS)):
        source = os.path.join(build, "data", "cifar10", split)
        with open(os.path.join(bundle, split + ".pack"), "wb") as to:  # name, size, bytes
            for key in some(source, count):
                with open(os.path.join(source, key), "rb") as f:
                    data = f.read()
                to.write(f"{key} {len(data)}\n".encode() + data)


def unpack(path, to):
    with open(path, "rb") as f:
        while head := f.readline():
            key, size = head.decode().split()
            os.makedirs(os.path.dirname(os.path.join(to, key)), exist_ok=True)
            with open(os.path.join(to, key), "wb") as out:
                out.write(f.read(int(size)))


# ---- training ----

def network():
    import torch
    import torchvision

    model = torchvision.models.resnet18(num_classes=10)
    model.conv1 = torch.nn.Conv2d(3, 64, 3, padding=1, bias=False)  # pictures of 32 x 32
    model.maxpool = torch.nn.Identity()
    return model.cuda().to(memory_format=torch.channels_last)


def normal(images):
    return (images.float() - 120) / 64


def accuracy(model, tests):
    import torch

    images, labels = tests
    model.eval()
    with torch.no_grad(), torch.autocast("cuda", dtype=torch.bfloat16):
        found = torch.cat([model(normal(part.cuda())).argmax(1).cpu() for part in images.split(512)])
    model.train()
    return float((found == labels).float().mean())


def test_samples(path):
    import numpy
    import torch
    from PIL import Image

    keys = sorted(os.path.relpath(os.path.join(here, f), path)
                  for here, _, names in os.walk(path) for f in names)
    classes = sorted({os.path.dirname(key) for key in keys})
    images = [numpy.array(Image.open(os.path.join(path, key)).convert("RGB")) for key in keys]
    return (torch.from_numpy(numpy.stack(images)).permute(0, 3, 1, 2),
            torch.tensor([classes.index(os.path.dirname(key)) for key in keys]))


def loader_of(url, socket, mode, seed):
    from dlcache.torch import HorizontalFlip, ImageLoader, ImportanceSampler, RandomResizedCrop

    common = {"socket": socket, "spawn": False}
    how = {"known-order": None, "shade-1": {"mode": "shade"},
           "shade-3": {"mode": "shade", "replication": 3.0}, "coverage": {"mode": "coverage"}}[mode]
    sampler = None if how is None else ImportanceSampler(url, seed=seed, **how, **common)
    return ImageLoader(url, BATCH, [RandomResizedCrop(32, scale=(0.6, 1.0)), HorizontalFlip()], seed=seed,
                       shuffle=sampler is None, sampler=sampler, channels_last=True, device="cuda", decoded_cache="off",
                       **common), sampler


def train(program, url, socket, mode, seed, tests_at):
    import torch

    torch.manual_seed(seed)
    torch.backends.cudnn.benchmark = True
    tests = test_samples(tests_at)
    model = network()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9, weight_decay=5e-4)
    loader, sampler = loader_of(url, socket, mode, seed)
    used, epochs, curve, gets = 0.0, [], [], 0
    while used < SECONDS:
        begin, positions = time.monotonic(), 0
        for images, labels in loader:
            left = 1 - (used + time.monotonic() - begin) / SECONDS
            optimizer.param_groups[0]["lr"] = 0.1 * max(left, 0.0)
            with torch.autocast("cuda", dtype=torch.bfloat16):
                losses = torch.nn.functional.cross_entropy(model(normal(images)), labels.cuda(), reduction="none")
            optimizer.zero_grad(set_to_none=True)
            losses.mean().backward()
            optimizer.step()
            if sampler is not None:
                loader.learn(losses.detach())
            positions += len(labels)
            if used + time.monotonic() - begin > SECONDS:
                break
        torch.cuda.synchronize()
        took = time.monotonic() - begin
        used += took
        now = stat(program, socket)["counters"]["bucket_gets"]
        if used < SECONDS or not epochs:
            distinct = sampler.figures.distinct if sampler is not None else positions
            epochs.append((positions, min(distinct, positions), now - gets, took))
        gets = now
        curve.append((round(used, 2), round(accuracy(model, tests), 4)))
    return epochs, curve


# ---- all ----

def cell(build, url, env, memory, mode, seeds, requests, tests_at):
    runs = []
    flags = ["--max-requests", str(requests)] if requests else []
    for seed in range(seeds):
        with scratch() as home, daemon(build, home, "--quiet", "--memory", str(memory), "--disk", "0", *flags,
                                       env=env) as (socket, _):
            runs.append(apart(train, build, url, socket, mode, seed, tests_at))
    rows = []
    for epochs, curve in runs:
        steady = epochs[WARM:] or epochs[-1:]
        gets, distinct = sum(e[2] for e in steady), sum(e[1] for e in steady)
        rows.append({"hit": 1 - gets / sum(e[0] for e in steady), "coverage": distinct / len(steady) / SAMPLES,
                     "reads_per_distinct": gets / distinct, "epochs": len(epochs),
                     "samples": sum(e[0] for e in epochs), "accuracy": curve[-1][1], "seconds": curve[-1][0]})
    got = {key: round(median([r[key] for r in rows]), 4) for key in rows[0]}
    return {**got, "accuracies": sorted(r["accuracy"] for r in rows), "curve": runs[0][1]}


def measure(build, data, env):
    """build: where src/cli/dlcache and bench/bench-delay-proxy are, and real/versitygw."""
    import s3server

    s3server.BUILD = build
    result = {"default": {}, "slow": {}}
    rows = []
    with scratch("/dev/shm") as local:
        root, tests_at = os.path.join(local, "s3"), os.path.join(local, "test")
        unpack(os.path.join(data, "test.pack"), tests_at)
        unpack(os.path.join(data, "train.pack"), os.path.join(root, "bench", "cifar10"))
        sizes = [os.path.getsize(os.path.join(h, f)) for h, _, n in os.walk(os.path.join(root, "bench")) for f in n]
        memory = 4096 + int(SHARE * len(sizes)) * (sum((s + 63) // 64 * 64 for s in sizes) // len(sizes))
        with s3server.Real(root, "bench") as server, far(build, server.port, LATENCY_MS) as port:
            env = {**env, **server.env(AWS_ENDPOINT_URL=f"http://127.0.0.1:{port}")}
            for mode, seeds, requests in CELLS:
                got = cell(build, "s3://bench/cifar10", env, memory, mode, seeds, requests, tests_at)
                result["slow" if requests else "default"][mode] = got
                rows.append([mode + (", slow" if requests else ""), f"{got['hit']:.3f}", f"{got['coverage']:.3f}",
                             f"{got['reads_per_distinct']:.3f}", f"{got['epochs']:.0f}", f"{got['samples']:.0f}",
                             f"{100 * got['accuracy']:.1f} %",
                             " ".join(f"{100 * a:.1f}" for a in got["accuracies"])])
                print(rows[-1], file=sys.stderr, flush=True)
    table(["CIFAR-10, ResNet-18", "hit", "coverage", "GETs/distinct", "epochs", "samples", "accuracy", "of seeds"],
          rows)
    return {**result, "c": SHARE, "samples": SAMPLES, "latency_ms": LATENCY_MS, "machine": gpu.machine()}


def main():
    if len(sys.argv) == 4 and sys.argv[1] == "pack":
        return pack(sys.argv[2], sys.argv[3])
    if len(sys.argv) != 3 or sys.argv[1] != "run":
        raise SystemExit(__doc__)
    bundle = os.path.abspath(sys.argv[2])
    libs = os.path.join(bundle, "lib")
    gpu.preload(libs)
    sys.path.insert(0, os.path.join(bundle, "python"))
    with scratch() as build:  # as a build directory has it
        for name, to in (("dlcache", "src/cli"), ("bench-delay-proxy", "bench")):
            os.makedirs(os.path.join(build, to))
            shutil.copy2(os.path.join(bundle, "bin", name), os.path.join(build, to, name))
        os.makedirs(os.path.join(build, "real"))
        with lzma.open(os.path.join(bundle, "real", "versitygw.xz")) as f, \
                open(os.path.join(build, "real", "versitygw"), "wb") as to:
            shutil.copyfileobj(f, to)
        os.chmod(os.path.join(build, "real", "versitygw"), 0o755)
        shutil.copy2(os.path.join(bundle, "real", "versitygw.version"), os.path.join(build, "real"))
        os.environ["LD_LIBRARY_PATH"] = libs
        os.environ["AWS_EC2_METADATA_DISABLED"] = "true"
        print(json.dumps(measure(build, bundle, dict(os.environ))))
    return 0


if __name__ == "__main__":
    sys.exit(main())
