# SPDX-License-Identifier: Apache-2.0
"""Transforms of ImageLoader, and their equivalents among torchvision's own classes.

    transforms=[RandomResizedCrop(224), HorizontalFlip(), ColorJitter(0.4, 0.4, 0.4), Normalize()]
    transforms=torchvision.transforms.Compose([...])         recognised by class and attributes

All happens in one pass, in this sequence whatever the list says: crop and resize, flip, jitter,
conversion, normalisation. A list in a sequence that would mean something else is refused, and so is
what we do not have: those need dlcache.torch.DataLoader, which runs any Python.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Union

__all__ = ["CenterCrop", "ColorJitter", "HorizontalFlip", "ImageSettings", "Normalize",
           "RandomResizedCrop", "Resize", "settings_of"]

Size = Union[int, "tuple[int, int]"]
Range = Union[float, "tuple[float, float]"]


@dataclass(frozen=True)
class RandomResizedCrop:
    """A random box of the image, resized to `size` (one number, or height and width)."""

    size: Size
    scale: tuple[float, float] = (0.08, 1.0)
    ratio: tuple[float, float] = (3 / 4, 4 / 3)


@dataclass(frozen=True)
class Resize:
    """One number: of the shorter side, and CenterCrop follows. Two: height and width."""

    size: Size


@dataclass(frozen=True)
class CenterCrop:
    """The middle of the image; black around it where the image is smaller."""

    size: Size


@dataclass(frozen=True)
class HorizontalFlip:
    """Left and right exchanged with probability `p`."""

    p: float = 0.5


@dataclass(frozen=True)
class ColorJitter:
    """As torchvision's: a number x means factors from 1 - x to 1 + x, for hue from -x to x."""

    brightness: Range = 0.0
    contrast: Range = 0.0
    saturation: Range = 0.0
    hue: Range = 0.0


@dataclass(frozen=True)
class Normalize:
    """(x / 255 - mean) / std; those of ImageNet by default."""

    mean: Sequence[float] = (0.485, 0.456, 0.406)
    std: Sequence[float] = (0.229, 0.224, 0.225)


@dataclass
class ImageSettings:
    """All transforms together; what struct dlc_image says (include/dlcache/loader.h)."""

    height: int = 0
    width: int = 0
    crop: int = 0        # whole, random resized, centre
    resize: int = 0
    scale: tuple[float, float] = (0.0, 0.0)
    ratio: tuple[float, float] = (0.0, 0.0)
    flip: float = 0.0
    jitter: list[tuple[float, float]] = field(default_factory=lambda: [(0.0, 0.0)] * 4)
    floats: bool = False  # the list converts to floats
    normalise: bool = False
    mean: tuple[float, ...] = (0.0, 0.0, 0.0)
    std: tuple[float, ...] = (0.0, 0.0, 0.0)


_WHOLE, _RANDOM, _CENTRE = range(3)


def settings_of(transforms: Any) -> ImageSettings:
    """What a list of transforms means; ValueError for what it cannot."""
    s = ImageSettings()
    stage = 0
    for t in _flat(transforms):
        name = type(t).__name__
        if name not in _KNOWN:
            raise ValueError(f"{name}: ImageLoader has {', '.join(sorted(_NAMES))}; for others use "
                             "dlcache.torch.DataLoader, which runs any function")
        at, take = _KNOWN[name]
        if take is _nothing:
            continue
        if at < stage:
            raise ValueError(f"{name} comes too late in transforms: first crop and resize, then "
                             "flip and jitter, then conversion, then Normalize")
        stage = at
        take(s, t)
    if s.width == 0:
        raise ValueError("images of a batch must have one size: give RandomResizedCrop(size), "
                         "Resize(size) and CenterCrop(size), or Resize((height, width))")
    return s


def _flat(transforms: Any) -> Iterator[Any]:
    """One after the other, those of Compose and lists taken out."""
    if hasattr(transforms, "transforms"):
        transforms = transforms.transforms
    if not isinstance(transforms, Iterable):
        transforms = [transforms]
    for t in transforms:
        if isinstance(t, (list, tuple)) or type(t).__name__ in ("Compose", "Sequential"):
            yield from _flat(t)
        else:
            yield t


def _pair(size: Any) -> tuple[int, int]:
    """(height, width)"""
    if isinstance(size, Sequence):
        return (int(size[0]), int(size[-1]))
    return (int(size), int(size))


def _check_filter(t: Any) -> None:
    """torchvision's filter must be the one we have."""
    name = getattr(getattr(t, "interpolation", None), "value", "bilinear")
    if name != "bilinear":
        raise ValueError(f"{type(t).__name__} with {name} interpolation: ImageLoader resizes with "
                         "bilinear")


def _random_crop(s: ImageSettings, t: Any) -> None:
    _check_filter(t)
    s.crop, (s.height, s.width) = _RANDOM, _pair(t.size)
    s.scale, s.ratio = (float(t.scale[0]), float(t.scale[1])), (float(t.ratio[0]), float(t.ratio[1]))


def _resize(s: ImageSettings, t: Any) -> None:
    _check_filter(t)
    size = t.size
    if isinstance(size, Sequence) and len(size) == 2:
        s.crop, (s.height, s.width) = _WHOLE, _pair(size)
    else:
        s.resize = _pair(size)[0]


def _centre_crop(s: ImageSettings, t: Any) -> None:
    if s.crop == _RANDOM or (s.crop == _WHOLE and s.width):
        raise ValueError("CenterCrop after another crop: give one of them")
    s.crop, (s.height, s.width) = _CENTRE, _pair(t.size)


def _flip(s: ImageSettings, t: Any) -> None:
    s.flip = s.flip + float(t.p) - 2 * s.flip * float(t.p)  # two flips are none


def _range(value: Any, middle: float) -> tuple[float, float]:
    if value is None:
        return (0.0, 0.0)
    if isinstance(value, Sequence):
        low, high = float(value[0]), float(value[1])
    else:
        low, high = middle - float(value), middle + float(value)
        low = max(low, 0.0) if middle else low
    return (0.0, 0.0) if low == high == middle else (low, high)


def _jitter(s: ImageSettings, t: Any) -> None:
    if any(r != (0.0, 0.0) for r in s.jitter):
        raise ValueError("ColorJitter twice: give it once")
    s.jitter = [_range(t.brightness, 1), _range(t.contrast, 1), _range(t.saturation, 1),
                _range(t.hue, 0)]


def _floats(s: ImageSettings, t: Any) -> None:
    s.floats = True


def _dtype(s: ImageSettings, t: Any) -> None:
    dtype = str(getattr(t, "dtype", ""))
    if not any(name in dtype for name in ("uint8", "float32", "float16")):
        raise ValueError(f"conversion to {dtype}: ImageLoader gives uint8, float32 and float16")
    s.floats = "float" in dtype


def _nothing(s: ImageSettings, t: Any) -> None:
    pass


def _normalise(s: ImageSettings, t: Any) -> None:
    def three(values: Any) -> tuple[float, ...]:
        values = [float(v) for v in values]
        if len(values) not in (1, 3):
            raise ValueError(f"Normalize with {len(values)} channels: images have 3")
        return tuple(values * (3 // len(values)))

    s.floats = s.normalise = True
    s.mean, s.std = three(t.mean), three(t.std)


_NAMES = ("RandomResizedCrop", "Resize", "CenterCrop", "HorizontalFlip", "ColorJitter", "Normalize",
          "ToTensor")
# Class, of ours or of torchvision (1 and 2) -> in which stage, and what it means.
_KNOWN = {
    "RandomResizedCrop": (0, _random_crop),
    "Resize": (0, _resize),
    "CenterCrop": (1, _centre_crop),
    "HorizontalFlip": (2, _flip),
    "RandomHorizontalFlip": (2, _flip),
    "ColorJitter": (2, _jitter),
    "ToTensor": (3, _floats),
    "PILToTensor": (0, _nothing),
    "ToImage": (0, _nothing),
    "ConvertImageDtype": (3, _dtype),
    "ToDtype": (3, _dtype),
    "Normalize": (4, _normalise),
}
