# SPDX-License-Identifier: Apache-2.0
"""Sounds against soundfile, scipy's formula for resampling, and torch and NumPy for spectrograms."""
import os
import unittest

import numpy as np
import soundfile
import torch

import probe

try:
    import scipy.signal as signal
except ImportError:
    signal = None

FORMATS = [("wav", "PCM_16"), ("wav", "PCM_24"), ("wav", "PCM_32"), ("wav", "PCM_U8"), ("wav", "FLOAT"), ("wav", "DOUBLE"),
           ("flac", "PCM_16"), ("flac", "PCM_24"), ("ogg", "VORBIS"), ("ogg", "OPUS")]


def wave(frames, channels=1, rate=16_000, seed=1):
    """Something between speech and music: gliding sines and noise."""
    rng, t = np.random.default_rng(seed), np.arange(frames)[:, None] / rate
    sines = sum(np.sin(2 * np.pi * (f * t + 40 * f * t * t / 440 + c)) for f, c in
                ((110, 0), (440, 1), (1700, 2))) * 0.2
    return np.clip(sines + 0.02 * rng.standard_normal((frames, channels)), -1, 1)


def save(samples, rate=16_000, kind="flac", subtype="PCM_16"):
    path = os.path.join(os.environ["TEST_DIR"], f"sound.{kind}")
    soundfile.write(path, samples, rate, format=kind.upper(), subtype=subtype)
    return path


def make(path, **spec):
    """The length, and an array of [channels][samples] or [channels][mels][frames]."""
    out = probe.run("audio", path, **spec)
    rows = (1 if spec.get("mono") else spec["channels"], *((spec["mels"],) if "mels" in spec else ()))
    return int.from_bytes(out[:4], "little"), np.frombuffer(out[4:], "f4").reshape(*rows, -1)


def resample(x, up, down):
    """scipy.signal.resample_poly(x, up, down) as its documentation says it, in double precision."""
    divisor = np.gcd(up, down)
    up, down = up // divisor, down // divisor
    largest = max(up, down)
    half = 10 * largest
    h = np.sinc(np.arange(-half, half + 1) / largest) * np.kaiser(2 * half + 1, 5.0)
    h *= up / h.sum()
    y = np.empty(-(-len(x) * up // down))
    for j in range(len(y)):
        k = np.arange(max(0, -((half - j * down) // up)), min(len(x), (j * down + half) // up + 1))
        y[j] = x[k] @ h[j * down - k * up + half]
    return y


def filters(mels, fft, rate, low, high):
    """[mels][bins]: triangles on the HTK scale, as torchaudio.functional.melscale_fbanks without norm."""
    mel = np.linspace(*(2595 * np.log10(1 + f / 700) for f in (low, high)), mels + 2)
    corners, hz = 700 * (10 ** (mel / 2595) - 1), np.arange(fft // 2 + 1) * rate / fft
    up = (hz - corners[:-2, None]) / np.diff(corners)[:-1, None]
    down = (corners[2:, None] - hz) / np.diff(corners)[1:, None]
    return np.maximum(0, np.minimum(up, down))


class Decoding(unittest.TestCase):
    def test_equals_soundfile_to_the_last_bit(self):
        for kind, subtype in FORMATS:
            for channels in (1, 2, 5):
                with self.subTest(kind=kind, subtype=subtype, channels=channels):
                    path = save(wave(20_000, channels, 48_000), 48_000, kind, subtype)
                    want = soundfile.read(path, dtype="float32", always_2d=True)[0].T
                    length, got = make(path, samples=want.shape[1], channels=channels)
                    self.assertEqual(length, want.shape[1])
                    self.assertEqual(got.tobytes(), np.ascontiguousarray(want).tobytes())

    def test_mean_is_numpys(self):
        path = save(wave(9_000, 2))
        want = soundfile.read(path, dtype="float32")[0].mean(axis=1)
        self.assertEqual(make(path, samples=9_000, mono=1)[1].tobytes(), want.tobytes())

    def test_padding(self):
        path = save(wave(9_000))
        length, got = make(path, samples=10_000, mono=1)
        want = np.pad(soundfile.read(path, dtype="float32")[0], (0, 1_000))
        self.assertEqual((length, got.tobytes()), (9_000, want.tobytes()))

    def test_a_random_part_is_one_that_soundfile_reads(self):
        path = save(wave(9_000))
        whole = soundfile.read(path, dtype="float32")[0]
        starts = set()
        for key in range(8):
            length, got = make(path, samples=4_000, mono=1, random_start=1, key=key)
            start = next(i for i in range(5_001) if (whole[i:i + 50] == got[0, :50]).all())
            self.assertEqual((length, got.tobytes()), (4_000, whole[start:start + 4_000].tobytes()))
            starts.add(start)
        self.assertGreater(len(starts), 4)

    def test_refusals(self):
        path = save(wave(9_000))
        with open(path, "r+b") as f:
            f.truncate(8_000)
        with self.assertRaisesRegex(probe.Failed, "ECORRUPT"):
            make(path, samples=9_000, mono=1)
        with open(path, "wb") as f:
            f.write(b"not a sound at all")
        with self.assertRaisesRegex(probe.Failed, "EINVAL: is not audio"):
            make(path, samples=9_000, mono=1)


class Resampling(unittest.TestCase):
    TOLERANCE = 2e-6  # of the loudest sample

    def check(self, reference):
        for rate, to in ((8_000, 16_000), (16_000, 8_000), (44_100, 16_000), (22_050, 16_000), (16_000, 22_050)):
            with self.subTest(rate=rate, to=to):
                path = save(wave(4_000, rate=rate), rate)
                x = soundfile.read(path, dtype="float32")[0]
                want = reference(x, to, rate)
                length, got = make(path, samples=len(want), mono=1, rate=to)
                self.assertEqual(length, len(want))
                self.assertLess(np.abs(got[0] - want).max(), self.TOLERANCE * np.abs(x).max())

    def test_equals_the_formula(self):
        self.check(lambda x, up, down: resample(x.astype("f8"), up, down))

    @unittest.skipIf(signal is None, "scipy is absent")
    def test_equals_scipy(self):
        self.check(lambda x, up, down: signal.resample_poly(x.astype("f8"), up, down))


class Spectrogram(unittest.TestCase):
    TOLERANCE = 1e-4
    SPEECH = dict(mels=80, fft=512, window=400, hop=160)

    def test_equals_torch(self):
        """torch.stft with center=False in double precision, and the filters above."""
        path = save(wave(16_000))
        x = torch.from_numpy(soundfile.read(path, dtype="float64")[0])
        window = torch.hann_window(400, dtype=torch.float64)
        power = torch.stft(x, 512, 160, 400, window, center=False, return_complex=True).abs() ** 2
        want = np.log(np.maximum(filters(80, 512, 16_000, 0, 8_000) @ power.numpy(), 1e-10))
        length, got = make(path, samples=16_000, mono=1, **self.SPEECH)
        self.assertEqual((length, got.shape[1:]), (97, want.shape))
        self.assertLess(np.abs(got[0] - want).max(), self.TOLERANCE)

    def test_pure_tones_down_to_60_db(self):
        for hz in (55.5, 440, 1234.5, 7_900):
            path = save(0.9 * np.sin(2 * np.pi * hz * np.arange(8_000) / 16_000), subtype="PCM_24")
            x = soundfile.read(path, dtype="float64")[0]
            frames = np.lib.stride_tricks.sliding_window_view(x, 512)[::160, 56:456]
            power = np.abs(np.fft.rfft(frames * (0.5 - 0.5 * np.cos(2 * np.pi * np.arange(400) / 400)), 512)) ** 2
            want = np.log(np.maximum(filters(80, 512, 16_000, 0, 8_000) @ power.T, 1e-10))
            got = make(path, samples=8_000, mono=1, **self.SPEECH)[1][0]
            heard = want > want.max(axis=0) - 6 * np.log(10)
            self.assertLess(np.abs(got - want)[heard].max(), self.TOLERANCE)
            self.assertTrue((got[~heard] < np.broadcast_to(want.max(axis=0), want.shape)[~heard] - 13).all())

    def test_equals_numpy_at_other_sizes(self):
        path = save(wave(12_000, rate=22_050), 22_050)
        x = soundfile.read(path, dtype="float64")[0]
        for mels, fft, window, hop, low, high in ((40, 1024, 1024, 256, 20, 11_000), (64, 256, 255, 100, 0, 8_000)):
            with self.subTest(fft=fft):
                hann = 0.5 - 0.5 * np.cos(2 * np.pi * np.arange(window) / window)
                frames = np.lib.stride_tricks.sliding_window_view(x, fft)[::hop, (fft - window) // 2:][:, :window]
                power = np.abs(np.fft.rfft(frames * hann, fft)) ** 2
                want = np.log(np.maximum(filters(mels, fft, 22_050, low, high) @ power.T, 1e-8))
                got = make(path, samples=12_000, mono=1, mels=mels, fft=fft, window=window, hop=hop, low=low,
                           high=high, floor=1e-8)[1]
                self.assertEqual(got.shape[1:], want.shape)
                self.assertLess(np.abs(got[0] - want).max(), self.TOLERANCE)

    def test_padding_is_silence(self):
        path = save(wave(8_000))
        length, got = make(path, samples=16_000, mono=1, **self.SPEECH)
        self.assertEqual(length, 47)
        self.assertTrue((got[0, :, 47:] == got[0, 0, -1]).all())
        self.assertAlmostEqual(float(got[0, 0, -1]), np.log(1e-10), places=4)


if __name__ == "__main__":
    unittest.main()
