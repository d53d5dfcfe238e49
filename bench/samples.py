# SPDX-License-Identifier: Apache-2.0
"""Samples for training loops: pictures and speech, and what loops make of them.

folder(name, build) gives a folder of samples below build/data, made at the first call: `mnist` and
`cifar10` (tools/get-data), `images` (made up), `utterances` and `utterances16` (joined from real prompts), always
the same. image(), sound() and digit() turn the bytes of a sample into a tensor; every contender
calls these very functions.
"""
import glob
import io
import os
import random
import shutil
import subprocess

import numpy as np
import soundfile
import torch
from PIL import Image
from torchvision import transforms

IMAGES = UTTERANCES = 1_024
SIDE = 256  # of an image
SECONDS = 10  # of an utterance, at least
CROP = 4 * 8_000  # what a loop takes of it: four seconds


def folder(name, build):
    path = os.path.join(build, "data", name)
    if name in ("mnist", "cifar10", "speech"):
        if subprocess.run(["tools/deps", "data"]).returncode != 0:
            raise SystemExit("bench: packages are missing, see above")
        if subprocess.run(["tools/get-data", name, os.path.dirname(path)],
                          stdout=subprocess.DEVNULL).returncode != 0:
            raise SystemExit(f"bench: no {name}, see above")
    elif not os.path.isdir(path):
        new = f"{path}.{os.getpid()}"
        {"images": make_images, "utterances": make_utterances, "utterances16": make_utterances16}[name](new, build)
        os.rename(new, path)
    return path


def files(path):
    """All files below a folder, as keys, in the order of their bytes."""
    return sorted(os.path.relpath(os.path.join(here, f), path)
                  for here, _, names in os.walk(path) for f in names)


def first(path):
    """The bytes of a sample, to make one before any clock starts: it loads modules."""
    with open(os.path.join(path, files(path)[0]), "rb") as f:
        return f.read()


def some(path, count, to):
    """Copy `count` files, evenly from all, below another folder: each class keeps its share."""
    keys = files(path)
    for i in range(count):
        key = keys[i * len(keys) // count]
        os.makedirs(os.path.dirname(os.path.join(to, key)), exist_ok=True)
        shutil.copyfile(os.path.join(path, key), os.path.join(to, key))


def mean_block(path):
    """Bytes that a sample takes in dlcache's memory, in the mean: blocks are multiples of 64."""
    sizes = [os.path.getsize(os.path.join(path, key)) for key in files(path)]
    return sum((size + 63) // 64 * 64 for size in sizes) // len(sizes)


def place(path, i, suffix):
    name = os.path.join(path, f"class-{i % 8}", f"{i:05}{suffix}")
    os.makedirs(os.path.dirname(name), exist_ok=True)
    return name


def make_images(path, build):
    """JPEG pictures of about 25 KB with detail at all scales, as photographs have."""
    rng = np.random.default_rng(1)
    for i in range(IMAGES):
        total = np.zeros((SIDE, SIDE, 3), "f4")
        for cells, weight in ((4, 90), (16, 40), (64, 25), (SIDE, 6)):
            noise = Image.fromarray(rng.integers(0, 256, (cells, cells, 3), "u1"))
            noise = np.asarray(noise.resize((SIDE, SIDE), Image.BICUBIC), "f4")
            total += (noise - 128) * (weight / 74)
        picture = Image.fromarray((total + 128).clip(0, 255).astype("u1"))
        picture.save(place(path, i, ".jpg"), quality=91)


def make_utterances(path, build):
    """FLAC files of ten seconds and more: prompts one after the other."""
    prompts = [soundfile.read(f, dtype="int16")[0]
               for f in sorted(glob.glob(os.path.join(folder("speech", build), "*", "*.flac")))]
    rng = random.Random(1)
    for i in range(UTTERANCES):
        parts = []
        while sum(map(len, parts)) < SECONDS * 8_000:
            parts.append(rng.choice(prompts)[:SECONDS * 8_000])
        soundfile.write(place(path, i, ".flac"), np.concatenate(parts), 8_000)


def make_utterances16(path, build):
    """FLAC files of 2 to 16 seconds at 16 kHz: prompts one after the other, with twice the samples."""
    prompts = [twice(soundfile.read(f)[0])
               for f in sorted(glob.glob(os.path.join(folder("speech", build), "*", "*.flac")))]
    rng = random.Random(1)
    for i in range(256):
        parts, count = [], int(rng.uniform(2, 16) * 16_000)
        while sum(map(len, parts)) < count:
            parts.append(rng.choice(prompts))
        soundfile.write(place(path, i, ".flac"), np.concatenate(parts)[:count], 16_000)


def twice(wave):
    """The same sound at twice the rate: its spectrum, and nothing above."""
    return (2 * np.fft.irfft(np.fft.rfft(wave), 2 * len(wave))).clip(-1, 1)


AUGMENT = transforms.Compose([
    transforms.RandomResizedCrop(224), transforms.RandomHorizontalFlip(), transforms.ToTensor(),
    transforms.Normalize((0.485, 0.456, 0.406), (0.229, 0.224, 0.225))])


def image(data):
    """As in every ImageNet script."""
    return AUGMENT(Image.open(io.BytesIO(data)).convert("RGB"))


def sound(data):
    """Four seconds from anywhere as a log spectrogram."""
    wave = soundfile.read(io.BytesIO(data), dtype="float32")[0]
    start = int(torch.randint(len(wave) - CROP, ()))
    spectrum = torch.stft(torch.from_numpy(wave[start:start + CROP]), 256, 80,
                          window=torch.hann_window(256), return_complex=True)
    return spectrum.abs().clamp_(1e-5).log_()


def digit(data):
    """A small picture as it is, grey or coloured."""
    pixels = torch.from_numpy(np.array(Image.open(io.BytesIO(data))))
    return (pixels[None] if pixels.ndim == 2 else pixels.permute(2, 0, 1)).float() / 255
