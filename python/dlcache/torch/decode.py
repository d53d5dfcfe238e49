# SPDX-License-Identifier: Apache-2.0
"""Decoding of samples: decode(data, key, how) turns bytes into an object.

`how` says what they are:

    "auto"     by their first bytes, else by the suffix of the key; bytes when neither is known
    "image"    PIL image in RGB, as torchvision's ImageFolder gives it
    "mask"     PIL image as it is stored (palette, grey, 16 bits): class numbers stay what they are
    "target"   as "auto", but images as "mask": for the target of a sample
    "audio"    (float32 tensor of channels x frames, sample rate), as torchaudio.load() gives it
    "npy"      tensor
    "npz"      dict of name to tensor
    "json"     what json.loads() gives
    "text"     str, UTF-8
    "cls"      int, written in digits
    "csv"      dict of column to list of texts; also "tsv"
    "parquet"  dict of column to list
    "torch"    torch.load(), tensors and plain containers only
    "torch-unsafe"  torch.load() of anything: reading it runs code that the file brings along
    "group"    WebDataset group: Group, a dict of suffix to decoded member
    "bytes"    bytes; None means the same
    callable   what how(data) returns; data is a memoryview
    dict       suffix (".jpg" or "jpg") to one of these; "" is for all other suffixes

(DECODE-1) The result never refers to `data`: the caller may release the view at once. Only a
     callable can break this.
(DECODE-2) Invalid data raises ValueError; a missing library raises ImportError.

Not here: where the bytes come from (dataset.py), rows of tables (partitions.py).
"""
import csv
import importlib
import io
import json
import math
import re
import tarfile
from typing import Any, Callable, Dict, Iterator, List, Mapping, NamedTuple, Optional, Union

import torch

DecodeSpec = Union[str, None, Callable[[memoryview], Any], Mapping[str, Any]]

PACKAGES = {  # module: (Debian package, pip package, what for)
    "PIL.Image": ("python3-pil", "pillow", "images"),
    "soundfile": ("python3-soundfile", "soundfile", "sound"),
    "numpy": ("python3-numpy", "numpy", "arrays"),
    "pyarrow.parquet": (None, "pyarrow", "parquet files"),
}
SUFFIXES = {
    "image": "jpg jpeg png ppm pgm pbm pnm bmp tif tiff webp gif",
    "audio": "wav flac ogg oga opus mp3 aif aiff au",
    "npy": "npy",
    "npz": "npz",
    "json": "json",
    "text": "txt text caption transcript md xml",
    "cls": "cls cls2 index inx id",
    "csv": "csv",
    "tsv": "tsv",
    "parquet": "parquet parq pq",
    "torch": "pt pth",
}
BY_SUFFIX = {suffix: how for how, suffixes in SUFFIXES.items() for suffix in suffixes.split()}
MAGIC = (  # (offset, bytes, offset, bytes, how)
    (0, b"\xff\xd8\xff", 0, b"", "image"),
    (0, b"\x89PNG\r\n\x1a\n", 0, b"", "image"),
    (0, b"GIF8", 0, b"", "image"),
    (0, b"II*\0", 0, b"", "image"),
    (0, b"MM\0*", 0, b"", "image"),
    (0, b"RIFF", 8, b"WEBP", "image"),
    (0, b"RIFF", 8, b"WAVE", "audio"),
    (0, b"fLaC", 0, b"", "audio"),
    (0, b"OggS", 0, b"", "audio"),
    (0, b"FORM", 8, b"AIF", "audio"),
    (0, b"\x93NUMPY", 0, b"", "npy"),
    (0, b"PAR1", 0, b"", "parquet"),
    (257, b"ustar", 0, b"", "group"),
)


class Group(dict):
    """The members of a WebDataset group by suffix, and its key as "__key__"."""

    def pair(self) -> Optional[tuple]:
        """(sample, target) when the group is one member and its class, else None."""
        names = [name for name in self if name not in ("__key__", "cls")]
        return (self[names[0]], self["cls"]) if "cls" in self and len(names) == 1 else None


class SampleFile(io.BytesIO):
    """A copy of a sample as a file to read, with its key as name."""

    def __init__(self, data, key: str = ""):
        super().__init__(data)
        self.name = key


def decode(data: memoryview, key: str = "", how: DecodeSpec = "auto") -> Any:
    """`data` decoded as `how` says (see above). `key` names the sample, in messages too."""
    if how is None:
        return bytes(data)
    if isinstance(how, Mapping):
        if guess(data) == "group":
            return group(data, key, how)
        return decode(data, key, _chosen(how, key))
    if not isinstance(how, str):
        return how(data)
    check_decode(how)
    name = guess(data, key, how) if how in ("auto", "target") else how
    try:
        return DECODERS[name](data, key)
    except (ImportError, MemoryError):
        raise
    except Exception as error:
        raise ValueError("%s is no %s that can be read: %s"
                         % (key or "the sample", name, error)) from error


def check_decode(how: DecodeSpec) -> None:
    """ValueError unless decode() knows `how`."""
    if isinstance(how, Mapping):
        for one in how.values():
            check_decode(one)
    elif isinstance(how, str) and how not in DECODERS and how not in ("auto", "target"):
        raise ValueError("decode=%r is unknown; there are auto, target, %s, None, a callable, and "
                         "a dict of suffixes" % (how, ", ".join(DECODERS)))
    elif not isinstance(how, str) and how is not None and not callable(how):
        raise TypeError("decode is a name, a callable, a dict or None, not %s" % type(how).__name__)


def guess(data: memoryview, key: str = "", how: str = "auto") -> str:
    """What `data` is, seen from its first bytes or else from the suffix of `key`."""
    head = bytes(data[:262])
    for at, first, then, second, name in MAGIC:
        if head.startswith(first, at) and head.startswith(second, then):
            break
    else:
        name = BY_SUFFIX.get(suffix_of(key), "bytes")
    return "mask" if name == "image" and how == "target" else name


def suffix_of(key: str) -> str:
    """"jpg" of "a.b/c.d.JPG"; empty when the name has no dot."""
    name = key.rpartition("/")[2]
    return name.rpartition(".")[2].lower() if "." in name else ""


def _chosen(how: Mapping, key: str) -> DecodeSpec:
    suffix = suffix_of(key)
    for name in (suffix, "." + suffix, ""):
        if name in how:
            return how[name]
    raise ValueError("decode has no entry for '.%s' of %s; add one, or '' for all others"
                     % (suffix, key))


def require(module: str):
    """The module, or an ImportError that names its packages."""
    try:
        return importlib.import_module(module)
    except ImportError as error:
        debian, pip, what = PACKAGES[module]
        ways = ["apt install " + debian] if debian else []
        raise ImportError("%s cannot be read without the module %s (%s); %s"
                          % (what, module, error, " or ".join(ways + ["pip install " + pip]))
                          ) from error


def _image(data, key):
    image = require("PIL.Image").open(io.BytesIO(data))
    return image.convert("RGB")  # reads all of it


def _mask(data, key):
    image = require("PIL.Image").open(io.BytesIO(data))
    image.load()
    return image


def _audio(data, key):
    sound, rate = require("soundfile").read(io.BytesIO(data), dtype="float32", always_2d=True)
    return torch.from_numpy(sound).t().contiguous(), rate


def _npy(data, key):
    numpy = require("numpy")
    head = io.BytesIO(data[:65536])
    read = {(1, 0): numpy.lib.format.read_array_header_1_0,
            (2, 0): numpy.lib.format.read_array_header_2_0}.get(numpy.lib.format.read_magic(head))
    if read is None:
        return tensor_of(numpy.load(io.BytesIO(data), allow_pickle=False))
    shape, fortran, dtype = read(head)
    if fortran or dtype.hasobject:
        return tensor_of(numpy.load(io.BytesIO(data), allow_pickle=False))
    flat = numpy.frombuffer(data, dtype, math.prod(shape), head.tell())
    return tensor_of(flat.reshape(shape).copy())  # the only copy


def _npz(data, key):
    with require("numpy").load(io.BytesIO(data), allow_pickle=False) as arrays:
        return {name: tensor_of(arrays[name]) for name in arrays.files}


def tensor_of(array):
    """A numpy array as a tensor; one whose type torch lacks (texts, records) stays an array."""
    if not array.dtype.isnative:
        array = array.astype(array.dtype.newbyteorder("="))
    try:
        return torch.from_numpy(array if array.flags.writeable else array.copy())
    except TypeError:
        return array


def _json(data, key):
    return json.loads(bytes(data))


def _text(data, key):
    return bytes(data).decode("utf-8-sig")


def _cls(data, key):
    return int(bytes(data))


def _csv(data, key):
    return _columns(data, csv_dialect(data, tabs=False))


def _tsv(data, key):
    return _columns(data, csv_dialect(data, tabs=True))


def _columns(data, dialect):
    rows = list(csv_rows(data, dialect))
    columns = zip(*rows) if rows else [()] * len(dialect.names)
    return {name: list(column) for name, column in zip(dialect.names, columns)}


class CsvDialect(NamedTuple):
    """How a csv is written."""

    names: List[str]  # of the columns
    header: bool  # the first row has the names
    delimiter: str


class ViewReader(io.RawIOBase):
    """A file over a view, not copied. Close it before the view is released."""

    def __init__(self, data):
        self._data, self._at = data, 0

    def readable(self) -> bool:
        return True

    def readinto(self, buffer) -> int:
        part = self._data[self._at:self._at + len(buffer)]
        buffer[:len(part)] = part
        self._at += len(part)
        return len(part)


def text_of(data) -> io.TextIOWrapper:
    """The text in a view, to be read line by line; line ends stay as they are."""
    return io.TextIOWrapper(io.BufferedReader(ViewReader(data), 1 << 16), "utf-8-sig", newline="")


def csv_dialect(data, tabs: bool) -> CsvDialect:
    """What the first row tells, by the rules of docs/datasets-formats.md."""
    with text_of(data) as text:
        delimiter = "\t" if tabs else max(",;|\t", key=text.readline().count)
    with text_of(data) as text:
        first: List[str] = next((row for row in csv.reader(text, delimiter=delimiter) if row), [])
    if any(is_number(field) for field in first):
        return CsvDialect(["column%d" % (k + 1) for k in range(len(first))], False, delimiter)
    return CsvDialect(first, True, delimiter)


def csv_rows(data, dialect: CsvDialect) -> Iterator[List[str]]:
    """The rows without header and blank lines; ValueError for one with too many or few fields."""
    with text_of(data) as text:
        rows = (row for row in csv.reader(text, delimiter=dialect.delimiter) if row)
        if dialect.header:
            next(rows, None)
        for number, row in enumerate(rows):
            if len(row) != len(dialect.names):
                raise ValueError("row %d has %d fields, not %d"
                                 % (number, len(row), len(dialect.names)))
            yield row


NUMBER = re.compile(r"\s*[-+]?((\d+\.?\d*|\.\d+)(e[-+]?\d+)?|nan|inf|infinity)\s*", re.I)


def is_number(text: str) -> bool:
    return NUMBER.fullmatch(text) is not None


def _parquet(data, key):
    return require("pyarrow.parquet").read_table(io.BytesIO(data)).to_pydict()


def _torch(data, key):
    return torch.load(io.BytesIO(data), map_location="cpu", weights_only=True)


def _torch_unsafe(data, key):
    return torch.load(io.BytesIO(data), map_location="cpu", weights_only=False)


def group(data, key: str, how: DecodeSpec = "auto") -> Group:
    """The Group in a small tar; `how` is for its members."""
    members = Group(__key__=key)
    if isinstance(how, Mapping):
        how = {"": "auto", **how}
    with tarfile.open(fileobj=io.BytesIO(data), mode="r:") as archive:
        for member in archive:
            file = archive.extractfile(member) if member.isfile() else None
            if file is not None:
                suffix = member.name.rpartition("/")[2].partition(".")[2]
                members[suffix] = decode(memoryview(file.read()), member.name, how)
    return members


def _bytes(data, key):
    return bytes(data)


DECODERS: Dict[str, Callable[[Any, str], Any]] = {
    "image": _image, "mask": _mask, "audio": _audio, "npy": _npy, "npz": _npz, "json": _json,
    "text": _text, "cls": _cls, "csv": _csv, "tsv": _tsv, "parquet": _parquet, "torch": _torch,
    "torch-unsafe": _torch_unsafe, "group": group, "bytes": _bytes,
}
