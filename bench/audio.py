# SPDX-License-Identifier: Apache-2.0
"""FLAC speech to padded batches of 64, one core: ours, libsndfile's bare decode, Python's usual loop.

256 utterances of 2 to 16 seconds at 16 kHz (prompts joined and brought to that rate), in memory. Utterances per
second of processor time; five rounds, in turns. With log-mel: 80 mels, windows of 25 ms each 10 ms. Goals: at
least 95 % of libsndfile's bare decode; with log-mel at least 5 times NumPy.
"""
import io
import json
import os
import subprocess
import time

from common import median, spread, table

ROUNDS, BATCH, RATE, LONGEST = 5, 64, 16_000, 16 * 16_000
MELS, FFT, WINDOW, HOP = 80, 512, 400, 160

NAMES = {
    "ours_1t": "ours",
    "decode_only_1t": "libsndfile alone, no batch",
    "python_1t": "soundfile, pad, stack",
    "ours_mel_1t": "ours with log-mel",
    "python_mel_1t": "soundfile and NumPy with log-mel",
}


def filters(np):
    """[bins][mels]: triangles on the HTK scale, as src/loader/audio/mel_i.h says."""
    mel = np.linspace(0, 2595 * np.log10(1 + RATE / 2 / 700), MELS + 2)
    corners, hz = 700 * (10 ** (mel / 2595) - 1), np.arange(FFT // 2 + 1)[:, None] * RATE / FFT
    up, down = (hz - corners[:-2]) / np.diff(corners)[:-1], (corners[2:] - hz) / np.diff(corners)[1:]
    return np.maximum(0, np.minimum(up, down)).astype("f4")


def loops():
    """The usual loop over encoded sounds, and the same with spectrograms. Both give how many samples they saw."""
    import numpy as np
    import soundfile

    bank, hann = filters(np), (0.5 - 0.5 * np.cos(2 * np.pi * np.arange(WINDOW) / WINDOW)).astype("f4")

    def batches(sounds, of):
        seen = 0
        for i in range(0, len(sounds), BATCH):
            waves = [soundfile.read(io.BytesIO(s), dtype="float32")[0] for s in sounds[i:i + BATCH]]
            seen += sum(map(len, waves))
            items = [of(w) for w in waves]
            longest = max(len(x) for x in items)
            np.stack([np.pad(x, ((0, longest - len(x)), *((0, 0),) * (x.ndim - 1))) for x in items])
        return seen

    def log_mel(wave):
        skip = (FFT - WINDOW) // 2
        frames = np.lib.stride_tricks.sliding_window_view(wave, FFT)[::HOP, skip:skip + WINDOW]
        spectrum = np.fft.rfft(frames * hann, FFT)
        return np.log(np.maximum((spectrum.real ** 2 + spectrum.imag ** 2).astype("f4") @ bank, 1e-10))

    return {"python_1t": lambda sounds: batches(sounds, lambda w: w),
            "python_mel_1t": lambda sounds: batches(sounds, log_mel)}


def run(build):
    os.environ["OPENBLAS_NUM_THREADS"] = os.environ["OMP_NUM_THREADS"] = "1"  # before NumPy comes
    import samples

    path = samples.folder("utterances16", build)
    paths = [os.path.join(path, key) for key in samples.files(path)]
    out = subprocess.run([os.path.join(build, "bench", "bench-audio"), str(LONGEST), str(RATE), str(ROUNDS)],
                         input="\n".join(paths), check=True, stdout=subprocess.PIPE, text=True).stdout
    rounds = json.loads(out)
    sounds = [open(p, "rb").read() for p in paths]
    contenders = loops()
    for name, loop in contenders.items():
        loop(sounds[:BATCH])  # modules and memory
        rounds[name] = []
    for _ in range(ROUNDS):
        for name, loop in contenders.items():
            start = time.process_time()
            seen = loop(sounds)
            rounds[name].append(len(sounds) / (time.process_time() - start))
            if seen != rounds["samples"]:
                raise SystemExit(f"bench: {name} saw {seen} samples, ours {rounds['samples']}")
    table(["one core", "utterances/s", "spread"],
          [[text, f"{median(rounds[name]):.0f}", spread(rounds[name])] for name, text in NAMES.items()])
    result = {name: round(median(rounds[name]), 1) for name in NAMES}
    print(f"ours to bare decode: {result['ours_1t'] / result['decode_only_1t']:.2f}; "
          f"log-mel, ours to NumPy: {result['ours_mel_1t'] / result['python_mel_1t']:.1f}")
    return result
