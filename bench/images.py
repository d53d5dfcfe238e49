# SPDX-License-Identifier: Apache-2.0
"""Images to batches: our loader, torchvision with PIL, and what decoding alone takes.

2,000 generated photographs of 500x375 pixels and about 90 KB, in memory; RandomResizedCrop(224) and
flip to uint8 batches of 64. One thread: ours, ours from prepared forms, torchvision with PIL,
torchvision's own decoder where there is one, libjpeg-turbo's full decode alone (the physical
reference). All processors: our loader through the daemon, and PyTorch's DataLoader with one worker
for each. Images per second; of one thread per second of processor time. Goals, one thread: at least 3 times
torchvision, at least full decode, at least 10 times torchvision from forms.
"""
import glob
import json
import os
import subprocess
import time
import warnings

from common import apart, daemon, median, scratch, spread, table

COUNT, BATCH, ROUNDS, PASSES = 2000, 64, 5, 2


def kernels(build, directory):
    """Rounds of the kernels alone, one thread; the images are written to the directory."""
    out = subprocess.run([os.path.join(build, "bench", "bench-images"), str(COUNT), str(ROUNDS), directory],
                         check=True, stdout=subprocess.PIPE).stdout
    return json.loads(out)


def speed(work, count):
    start = time.process_time()
    work()
    return count / (time.process_time() - start)


def of_pil(directory):
    """torchvision over PIL in one process, from bytes in memory."""
    import io

    import torch
    import torchvision.transforms as t
    from PIL import Image

    torch.set_num_threads(1)
    steps = t.Compose([t.RandomResizedCrop(224), t.RandomHorizontalFlip(), t.PILToTensor()])
    data = [open(path, "rb").read() for path in sorted(glob.glob(directory + "/*.jpg"))]

    def work():
        for k in range(0, len(data), BATCH):
            torch.stack([steps(Image.open(io.BytesIO(d)).convert("RGB")) for d in data[k:k + BATCH]])

    return [speed(work, len(data)) for _ in range(PASSES)]


def of_torchvision(directory):
    """torchvision's own decoder (torchvision.io), where it was built with one."""
    import torch
    import torchvision
    import torchvision.transforms as t

    torch.set_num_threads(1)
    crop, flip = t.RandomResizedCrop(224, antialias=True), t.RandomHorizontalFlip()
    data = [torch.frombuffer(bytearray(open(path, "rb").read()), dtype=torch.uint8)
            for path in sorted(glob.glob(directory + "/*.jpg"))[:COUNT // 4]]
    try:
        torchvision.io.decode_jpeg(data[0])
    except (RuntimeError, AttributeError):
        return None

    def work():
        for k in range(0, len(data), BATCH):
            torch.stack([flip(crop(torchvision.io.decode_jpeg(d))) for d in data[k:k + BATCH]])

    return [speed(work, len(data)) for _ in range(PASSES)]


def loop(loader, epochs):
    """Images per second of a loop that does nothing, the first epoch left out."""
    count, start = 0, None
    for epoch in range(epochs + 1):
        for images, labels in loader:
            if start is not None:
                count += len(labels)
        start = start or time.monotonic()
    return count / (time.monotonic() - start)


def ours_all(directory, socket, threads):
    from dlcache.torch import HorizontalFlip, ImageLoader, RandomResizedCrop

    with ImageLoader("file://" + directory + "/", BATCH, [RandomResizedCrop(224), HorizontalFlip()], shuffle=True,
                     threads=threads, decoded_cache=False, socket=socket, spawn=False) as loader:
        return loop(loader, PASSES)


def torch_all(directory):
    import torch
    import torchvision.transforms as t
    from torchvision.datasets import ImageFolder

    torch.set_num_threads(1)
    warnings.filterwarnings("ignore")
    steps = t.Compose([t.RandomResizedCrop(224), t.RandomHorizontalFlip(), t.PILToTensor()])
    loader = torch.utils.data.DataLoader(ImageFolder(directory, steps), BATCH, shuffle=True,
                                         num_workers=len(os.sched_getaffinity(0)), persistent_workers=True)
    return loop(loader, 1)


def run(build):
    with scratch("/dev/shm") as top:
        data = os.path.join(top, "data", "photos")
        os.makedirs(data)
        one = kernels(build, data)
        pil, io = apart(of_pil, data), apart(of_torchvision, data)
        everywhere = {"ours": [], "torchvision": []}
        with daemon(build, top, "--memory", "1GB", "--disk", "0") as (socket, _):
            for _ in range(3):
                everywhere["ours"].append(apart(ours_all, os.path.dirname(data), socket, "auto"))
                everywhere["torchvision"].append(apart(torch_all, os.path.dirname(data)))
            loader_1t = [apart(ours_all, os.path.dirname(data), socket, 1) for _ in range(3)]
    lines = {"ours_1t": ("ours, one thread", one["ours_1t"]),
             "ours_forms_1t": ("ours from prepared forms, one thread", one["ours_forms_1t"]),
             "loader_1t": ("the whole loader, one thread, wall time", loader_1t),
             "torchvision_1t": ("torchvision with PIL, one process", pil),
             "torchvision_io_1t": ("torchvision's own decoder, one process", io),
             "decode_only_1t": ("libjpeg-turbo, full decode alone", one["decode_only_1t"]),
             "ours_all": ("ours, all processors", everywhere["ours"]),
             "torchvision_all": ("torchvision with PIL, all processors", everywhere["torchvision"])}
    base = median(pil)
    table(["", "images/s", "spread", "x torchvision"],
          [[text, f"{median(v):.0f}", spread(v), f"{median(v) / base:.2f}"] for text, v in lines.values() if v])
    result = {name: round(median(v), 1) if v else None for name, (_, v) in lines.items()}
    result["cores"] = len(os.sched_getaffinity(0))
    return result
