# SPDX-License-Identifier: Apache-2.0
"""GpuMonitor: how busy GPUs are and how much of their memory is in use, by NVML.

NVML (libnvidia-ml.so.1) comes with NVIDIA's driver and is loaded by ctypes; DLCACHE_NVML names
another file. Where it is missing, or does not answer, there are simply no figures. The GPUs are
those of CUDA_VISIBLE_DEVICES, else all of the machine; other processes may use them too.

(GPU-1) sample() asks the driver at most every EVERY_S seconds; a failing GPU is not asked again.
"""
from __future__ import annotations

import ctypes
import dataclasses
import os
import time
from typing import Any, Dict, List, Optional

from dlcache.torch.format import share, size

__all__ = ["GpuFigures", "GpuMonitor"]

EVERY_S = 0.5
NAME_BYTES = 96


@dataclasses.dataclass(frozen=True)
class GpuFigures:
    index: int            #: NVML's number of it
    name: str
    utilisation: float    #: mean share of the time in which it computed, 0 to 1
    memory_most: int      #: bytes in use, the most that was seen
    memory_total: int

    def as_dict(self) -> Dict[str, Any]:
        return dataclasses.asdict(self)

    def text(self) -> str:
        return (f"GPU {self.index}: {share(self.utilisation)} busy, {size(self.memory_most)} of "
                f"{size(self.memory_total)} at most: {self.name}")


class _Utilisation(ctypes.Structure):
    _fields_ = [("gpu", ctypes.c_uint), ("memory", ctypes.c_uint)]  # percent


class _Memory(ctypes.Structure):
    _fields_ = [("total", ctypes.c_ulonglong), ("free", ctypes.c_ulonglong),
                ("used", ctypes.c_ulonglong)]


class _Gpu:
    def __init__(self, index: int, handle: ctypes.c_void_p, name: str) -> None:
        self.index, self.handle, self.name = index, handle, name
        self.busy = self.samples = self.most = self.total = 0
        self.lost = False

    def figures(self) -> GpuFigures:
        return GpuFigures(self.index, self.name, self.busy / self.samples / 100, self.most,
                          self.total)


class GpuMonitor:
    """Samples all GPUs; nothing where there is no NVML."""

    def __init__(self, library: Optional[str] = None) -> None:
        self._gpus: List[_Gpu] = []
        self._next = 0.0
        self._nvml = _load(library or os.environ.get("DLCACHE_NVML") or "libnvidia-ml.so.1")
        if self._nvml is not None:
            self._gpus = _devices(self._nvml, os.environ.get("CUDA_VISIBLE_DEVICES"))

    def sample(self, now: Optional[float] = None) -> None:
        """Ask the driver, if it is time."""
        now = time.monotonic() if now is None else now
        if not self._gpus or now < self._next:
            return
        self._next = now + EVERY_S
        for gpu in self._gpus:
            if not gpu.lost:
                self._ask(gpu)

    def figures(self) -> List[GpuFigures]:
        return [gpu.figures() for gpu in self._gpus if gpu.samples]

    def _ask(self, gpu: _Gpu) -> None:
        busy, memory = _Utilisation(), _Memory()
        nvml = self._nvml
        if (nvml.nvmlDeviceGetUtilizationRates(gpu.handle, ctypes.byref(busy)) != 0
                or nvml.nvmlDeviceGetMemoryInfo(gpu.handle, ctypes.byref(memory)) != 0):
            gpu.lost = True
            return
        gpu.samples += 1
        gpu.busy += min(busy.gpu, 100)
        gpu.most, gpu.total = max(gpu.most, memory.used), memory.total


def _load(library: str) -> Any:
    """NVML, ready; None: there is none."""
    try:
        nvml = ctypes.CDLL(library)
        return nvml if nvml.nvmlInit_v2() == 0 else None
    except (OSError, AttributeError):
        return None


def _devices(nvml: Any, visible: Optional[str]) -> List[_Gpu]:
    if visible is None:
        count = ctypes.c_uint()
        names = range(count.value if nvml.nvmlDeviceGetCount_v2(ctypes.byref(count)) == 0 else 0)
        return [gpu for i in names if (gpu := _device(nvml, str(i))) is not None]
    found: List[_Gpu] = []
    for name in filter(None, (n.strip() for n in visible.split(","))):
        gpu = _device(nvml, name)
        if gpu is None:  # CUDA too ignores what follows
            break
        found.append(gpu)
    return found


def _device(nvml: Any, name: str) -> Optional[_Gpu]:
    """By its number or its UUID."""
    handle, index = ctypes.c_void_p(), ctypes.c_uint()
    if name.isdigit():
        rc = nvml.nvmlDeviceGetHandleByIndex_v2(ctypes.c_uint(int(name)), ctypes.byref(handle))
    else:
        rc = nvml.nvmlDeviceGetHandleByUUID(name.encode(), ctypes.byref(handle))
    text = ctypes.create_string_buffer(NAME_BYTES)
    if (rc != 0 or nvml.nvmlDeviceGetIndex(handle, ctypes.byref(index)) != 0
            or nvml.nvmlDeviceGetName(handle, text, ctypes.c_uint(NAME_BYTES)) != 0):
        return None
    return _Gpu(index.value, handle, text.value.decode(errors="replace"))
