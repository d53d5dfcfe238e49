# SPDX-License-Identifier: Apache-2.0
"""Training on a GPU: synthetic data, PyTorch's DataLoader with 16 workers, and our ImageLoader.

ResNet-50 and ResNet-18 in bf16 (autocast), channels-last, batches of 256, SGD. 12,800 generated JPEG
files of 500x375 and about 90 KB; RandomResizedCrop(224) and flip to uint8 on the processors,
normalised on the GPU, the same for both loaders. Images per second after a warm-up, rounds
interleaved; the median and the spread. Goals: ResNet-50 at 99 % of synthetic; ResNet-18 at least
three times PyTorch's loader.

The GPU machine needs PyTorch and torchvision, no network and no compiler:

    python3 bench/gpu.py pack build bundle     here: package, daemon and libraries into a folder
    python3 bench/gpu.py run bundle            there: the table, and one line of JSON
"""
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time

BATCH, IMAGES, WORKERS = 256, 12800, 16
WIDTH, HEIGHT = 500, 375
ROUNDS, WARM_STEPS, ROUND_S = 3, 12, 12.0
MODELS = ("resnet50", "resnet18")
MEAN, STD = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)
KEPT = ("libc.so", "libm.so", "libpthread", "libdl.so", "librt.so", "libresolv", "ld-linux", "linux-vdso")


# ---- packing ----

def libraries(path):
    """Shared libraries that a file needs, those of the C library left out."""
    out = subprocess.run(["ldd", path], check=True, stdout=subprocess.PIPE, text=True).stdout
    for line in out.splitlines():
        parts = line.split()
        if len(parts) > 2 and parts[1] == "=>" and not parts[0].startswith(KEPT):
            yield parts[0], parts[2]


def pack(build, bundle):
    os.makedirs(os.path.join(bundle, "lib"), exist_ok=True)
    os.makedirs(os.path.join(bundle, "bin"), exist_ok=True)
    shutil.copytree(os.path.join(build, "python", "dlcache"), os.path.join(bundle, "python", "dlcache"),
                    dirs_exist_ok=True, ignore=shutil.ignore_patterns("*.p", "__pycache__"))
    shutil.copy2(os.path.join(build, "src", "cli", "dlcache"), os.path.join(bundle, "bin", "dlcache"))
    for name in ("python/dlcache/_dlcache.abi3.so", "bin/dlcache"):
        path = os.path.join(bundle, name)
        for library, source in libraries(path):
            shutil.copy2(source, os.path.join(bundle, "lib", library))
        subprocess.run(["strip", "--strip-debug", path], check=False)


def preload(libs):
    """Load what the package needs into this process: the system's library where it has one, for PyTorch
    may use the same, else the bundle's. Those that need others come after them."""
    left, before = sorted(os.listdir(libs)), None
    while left and left != before:
        before, left = left, [name for name in left if not loads(name) and not loads(os.path.join(libs, name))]
    if left:
        raise SystemExit(f"bench: cannot load {', '.join(left)}")


def loads(name):
    import ctypes

    try:
        ctypes.CDLL(name, ctypes.RTLD_GLOBAL)
    except OSError:
        return False
    return True


# ---- data ----

def write_images(args):
    """A share of the images: smooth shapes under noise, which gives the size of a photograph."""
    directory, first, count = args
    import numpy
    from PIL import Image

    rng = numpy.random.default_rng(first)
    y, x = numpy.mgrid[0:HEIGHT, 0:WIDTH].astype(numpy.float32)
    for i in range(first, first + count):
        waves = [127 + 70 * numpy.sin(x / rng.uniform(9, 60) + y / rng.uniform(9, 60)) for _ in range(3)]
        noise = rng.normal(0, 24, (HEIGHT, WIDTH, 1))
        pixels = (numpy.stack(waves, -1) + noise).clip(0, 255).astype(numpy.uint8)
        folder = os.path.join(directory, f"class-{i % 10}")
        os.makedirs(folder, exist_ok=True)
        Image.fromarray(pixels).save(os.path.join(folder, f"{i:06}.jpg"), quality=83)


def make_data(directory):
    import multiprocessing

    each = -(-IMAGES // WORKERS)
    parts = [(directory, k, min(each, IMAGES - k)) for k in range(0, IMAGES, each)]
    with multiprocessing.get_context("spawn").Pool(WORKERS) as pool:
        pool.map(write_images, parts)
    sizes = [e.stat().st_size for c in os.scandir(directory) for e in os.scandir(c.path)]
    print(f"{len(sizes)} images of {sum(sizes) / len(sizes) / 1000:.0f} KB", file=sys.stderr)


# ---- batches ----

def synthetic(_directory, _socket):
    import torch

    images = torch.randint(0, 256, (BATCH, 3, 224, 224), dtype=torch.uint8, device="cuda")
    images = images.to(memory_format=torch.channels_last)
    labels = torch.randint(0, 10, (BATCH,), device="cuda")
    while True:
        yield images, labels


def of_torch(directory, _socket):
    import torch
    import torchvision.transforms as t
    from torchvision.datasets import ImageFolder

    steps = t.Compose([t.RandomResizedCrop(224), t.RandomHorizontalFlip(), t.PILToTensor()])
    loader = torch.utils.data.DataLoader(
        ImageFolder(directory, steps), BATCH, shuffle=True, num_workers=WORKERS, pin_memory=True, drop_last=True,
        persistent_workers=True, prefetch_factor=4)
    while True:
        for images, labels in loader:
            yield (images.to("cuda", non_blocking=True, memory_format=torch.channels_last),
                   labels.to("cuda", non_blocking=True))


def ours(directory, socket):
    from dlcache.torch import HorizontalFlip, ImageLoader, RandomResizedCrop

    loader = ImageLoader("file://" + directory + "/", BATCH, [RandomResizedCrop(224), HorizontalFlip()], shuffle=True,
                         drop_last=True, channels_last=True, device="cuda", socket=socket, spawn=False)
    try:
        while True:
            yield from loader
    finally:
        print(loader.report(), file=sys.stderr)
        loader.close()


CONTENDERS = {"synthetic": synthetic, "torch": of_torch, "ours": ours}


# ---- training ----

class Training:
    def __init__(self, name):
        import torch
        import torchvision

        self.torch = torch
        torch.backends.cudnn.benchmark = True
        self.model = getattr(torchvision.models, name)(num_classes=10).cuda().to(memory_format=torch.channels_last)
        self.optimiser = torch.optim.SGD(self.model.parameters(), 0.1, momentum=0.9)
        self.loss = torch.nn.CrossEntropyLoss()
        self.mean = torch.tensor(MEAN, device="cuda").mul(255).view(1, 3, 1, 1)
        self.std = torch.tensor(STD, device="cuda").mul(255).view(1, 3, 1, 1)

    def step(self, images, labels):
        torch = self.torch
        with torch.autocast("cuda", dtype=torch.bfloat16):
            loss = self.loss(self.model((images.float() - self.mean) / self.std), labels)
        self.optimiser.zero_grad(set_to_none=True)
        loss.backward()
        self.optimiser.step()

    def speed(self, batches, seconds):
        """Images per second; the GPU has finished when the clock is read."""
        for _ in range(WARM_STEPS):
            self.step(*next(batches))
        self.torch.cuda.synchronize()
        start, count = time.monotonic(), 0
        while time.monotonic() - start < seconds:
            for _ in range(8):
                images, labels = next(batches)
                self.step(images, labels)
                count += len(labels)
        self.torch.cuda.synchronize()
        return count / (time.monotonic() - start)


def alone(batches, seconds):
    """Images per second of a loader whose batches nobody uses."""
    import torch

    for _ in range(WARM_STEPS):
        next(batches)
    torch.cuda.synchronize()
    start, count = time.monotonic(), 0
    while time.monotonic() - start < seconds:
        count += len(next(batches)[1])
    torch.cuda.synchronize()
    return count / (time.monotonic() - start)


def measure(directory, socket):
    import statistics

    result, rounds = {}, {m: {c: [] for c in CONTENDERS} for m in MODELS}
    for name in MODELS:
        training = Training(name)
        for turn in range(ROUNDS):
            for contender, make in CONTENDERS.items():
                batches = make(directory, socket)
                rounds[name][contender].append(training.speed(batches, ROUND_S))
                batches.close()
                print(f"{name} {contender} {rounds[name][contender][-1]:.0f}/s", file=sys.stderr)
        result[name] = {c: round(statistics.median(v), 1) for c, v in rounds[name].items()}
        del training
    result["loader_only"] = {}
    for contender in ("torch", "ours"):
        batches = CONTENDERS[contender](directory, socket)
        result["loader_only"][contender] = round(alone(batches, ROUND_S), 1)
        batches.close()
    result["rounds"] = {m: {c: [round(x, 1) for x in v] for c, v in r.items()} for m, r in rounds.items()}
    return result


def machine():
    import torch

    return {"gpu": torch.cuda.get_device_name(0), "torch": torch.__version__,
            "cores": len(os.sched_getaffinity(0)), "python": sys.version.split()[0]}


def with_daemon(program, env):
    import torch

    if not torch.cuda.is_available():
        raise SystemExit("bench: no GPU here; pack with 'bench/gpu.py pack', and run it where there is one")
    where = "/dev/shm" if shutil.disk_usage("/dev/shm").free > 6 << 30 else None
    with tempfile.TemporaryDirectory(prefix="dlb-", dir=where) as directory:
        data, socket = os.path.join(directory, "data"), os.path.join(directory, "socket")
        os.makedirs(data)
        make_data(data)
        serve = subprocess.Popen([program, "serve", "--socket", socket, "--dir", os.path.join(directory, "cache"),
                                  "--disk", "0", "--memory", "4GB"], env=env)
        try:
            end = time.monotonic() + 30
            while not os.path.exists(socket):
                if serve.poll() is not None or time.monotonic() > end:
                    raise SystemExit("bench: the daemon did not start")
                time.sleep(0.05)
            return {**measure(data, socket), "machine": machine()}
        finally:
            serve.terminate()
            serve.wait()


def show(result):
    print(f"{'images per second':20}{'synthetic':>12}{'torch':>12}{'ours':>12}   ours/synthetic   ours/torch")
    for name in MODELS:
        r = result[name]
        print(f"{name:20}{r['synthetic']:12.0f}{r['torch']:12.0f}{r['ours']:12.0f}"
              f"{100 * r['ours'] / r['synthetic']:14.1f} %{r['ours'] / r['torch']:12.2f}x")
    alone_ = result["loader_only"]
    print(f"{'loader alone':20}{'':12}{alone_['torch']:12.0f}{alone_['ours']:12.0f}")


def run(build):
    result = with_daemon(os.path.join(build, "src", "cli", "dlcache"), None)
    show(result)
    return result


def main():
    if len(sys.argv) == 4 and sys.argv[1] == "pack":
        return pack(sys.argv[2], sys.argv[3])
    if len(sys.argv) != 3 or sys.argv[1] != "run":
        raise SystemExit(__doc__)
    bundle = os.path.abspath(sys.argv[2])
    libs = os.path.join(bundle, "lib")
    preload(libs)
    sys.path.insert(0, os.path.join(bundle, "python"))
    result = with_daemon(os.path.join(bundle, "bin", "dlcache"), {**os.environ, "LD_LIBRARY_PATH": libs})
    show(result)
    print(json.dumps(result))
    return 0


if __name__ == "__main__":
    sys.exit(main())
