# SPDX-License-Identifier: Apache-2.0
"""Dataset: the samples of a URL as a torch dataset, with the interface of torchvision's ImageFolder.

An item is made in stages, and an error names the stage in which it happened:

    read --> decode --> transform --> target_transform     (or transforms, for both at once)
             load_sample, load_target: to override

An *index* counts the items of this dataset. source() tells which *sample* of the dlcache.Dataset
each of them is: a split is a range of samples, a filter or process() makes a list.

(DATASET-1) A view lives no longer than the decoding of its sample.
(DATASET-2) A dataset holds nothing that a child process could not use: after a fork it keeps
     reading, and a pickled one opens itself again when it is first read.
(DATASET-3) `version` changes whenever an attribute is set, so that workers with an older copy are
     noticed.
(DATASET-4) A pickled dataset opens the snapshot it was made with, or raises ChangedError: numbers,
     targets and splits that were computed before mean the same samples everywhere.

Not here: the meaning of the bytes (decode.py), skipped and replaced samples (sample_errors.py),
torchvision's constructors (folders.py), batches and workers (loader.py), rows of tables
(partitions.py).
"""
import array
import collections
import os
from typing import Any, Callable, Dict, List, Mapping, Optional, Sequence, Tuple, Union

import torch.utils.data

import dlcache
from dlcache.torch.decode import DecodeSpec, Group, SampleFile, check_decode, decode
from dlcache.torch.order.ranks import open_agreed
from dlcache.torch.pipeline.worker import note_sample
from dlcache.torch.sample_errors import OF_THE_SAMPLE, BadSample, ErrorLog
from dlcache.torch.sample_table import LazySequence, SampleTable
from dlcache.torch.sources import position_of, release_views, split_of, url_of

ON_ERROR = ("raise", "skip", "replace")
REPLACEMENT_TRIES = 100  # neighbours that are looked at for a good one
BAD_IN_A_ROW = 1000      # skipped without one that is good: then it is not a matter of samples


class StandardTransform:
    """transform and target_transform as one callable, as torchvision has it."""

    def __init__(self, transform: Optional[Callable], target_transform: Optional[Callable]):
        self.transform, self.target_transform = transform, target_transform

    def __call__(self, sample, target):
        if self.transform is not None:
            sample = self.transform(sample)
        if self.target_transform is not None:
            target = self.target_transform(target)
        return sample, target

    def __repr__(self) -> str:
        lines = ["StandardTransform"]
        for head, what in (("Transform: ", self.transform),
                           ("Target transform: ", self.target_transform)):
            if what is not None:
                lines.append(head + repr(what).replace("\n", "\n" + " " * len(head)))
        return "\n".join(lines)


class Dataset(torch.utils.data.Dataset):
    """The samples below a URL, decoded. A drop-in for torchvision's ImageFolder and DatasetFolder.

        from dlcache.torch import DataLoader, Dataset

        train = Dataset("s3://my-bucket/pets/", split="train", transform=augment)
        image, label = train[0]
        for images, labels in DataLoader(train, batch_size=256, shuffle=True):
            ...

    An item is (sample, target) when the dataset says something of its samples: a class folder or
    the label of a manifest (an int; -1 for a sample without), a target file (decoded), the class
    in a WebDataset group, or what process() returned. Else it is the sample alone.

    url               where the data lies (docs/datasets.md); a path means file://. A list: several
                      places of one bucket as one dataset
    split             "train", "validation" or "test"; None: all samples
    transform         called with the sample
    target_transform  called with the target
    transforms        called with both, instead of the two above; returns both (segmentation)
    decode            what the bytes are: "auto", "image", "audio", ... (dlcache.torch.decode), a
                      callable that gets a memoryview, or a dict of suffixes
    target_decode     the same for target files; "auto" leaves masks as they are stored
    on_error          "raise": an item that cannot be made raises an error with index, key and stage
                      "replace": the next good sample takes its place, and it is counted
                      "skip": it is left out of its batch, and it is counted; ds[i], which cannot
                      leave out anything, replaces it
    loader            called with a file to read (its `name` is the key) instead of decode
    extensions        only keys that end so
    is_valid_file     only keys for which it is true
    All other arguments go to dlcache.open(): socket, endpoint, spawn, anonymous, timeout, refresh,
    token, snapshot.

    To make samples in another way, subclass it:

        class Captions(Dataset):
            def process(self, table):                 # once, when it is opened
                wanted = [i for i, source in enumerate(table["source"]) if source == "web"]
                return [(i, table["caption"][i]) for i in wanted]

            def load_sample(self, data, key):         # in the worker; data is a memoryview
                return turbo.decode(data)

            def load_target(self, target):            # what process() gave for this sample
                return tokenizer.encode(target)

        captions = Captions("s3://my-bucket/pictures/")   # with a manifest.csv: path,caption,source
    """

    _version = 0  # here, so that a subclass may set attributes before it calls __init__()

    def __init__(self, url: Union[str, os.PathLike, Sequence[Union[str, os.PathLike]]],
                 split: Optional[str] = None,
                 transform: Optional[Callable] = None, target_transform: Optional[Callable] = None,
                 decode: DecodeSpec = "auto", on_error: str = "raise", *,
                 transforms: Optional[Callable] = None, target_decode: DecodeSpec = "auto",
                 loader: Optional[Callable] = None,
                 extensions: Union[str, Sequence[str], None] = None,
                 is_valid_file: Optional[Callable[[str], bool]] = None, **options):
        if callable(split):
            raise TypeError("the second argument is the split; write transform=...")
        if transforms is not None and (transform is not None or target_transform is not None):
            raise ValueError("transforms takes the place of transform and target_transform: "
                             "give the one or the others")
        if extensions is not None and is_valid_file is not None:
            raise ValueError("extensions and is_valid_file both choose files: give one of them")
        self._error_log = ErrorLog()
        self.url = url_of(url)
        self.root = url
        self.split = split
        self.transform, self.target_transform = transform, target_transform
        self._joint = transforms
        self.decode, self.target_decode, self.loader = decode, target_decode, loader
        self.on_error = on_error
        self._handle: Optional[dlcache.Dataset] = self._first_open(options)
        self._options = dict(options, refresh=False, snapshot=self._handle.snapshot)  # (DATASET-4)
        self._numbers: Sequence[int] = split_of(self._handle, split)
        self._given: Optional[List[Any]] = None  # targets from process()
        self._choose(extensions, is_valid_file)
        self._process()
        self._has_labels = self._handle.labels is not None
        self._has_files = len(self) > 0 and self._finds_targets()

    # -- what is in it

    def _first_open(self, options: Dict[str, Any]) -> dlcache.Dataset:
        return open_agreed(self.url, **options)

    def _finds_targets(self) -> bool:
        """Are there target files? All samples of a split have one, or none has."""
        splits = [r for name, r in self._handle.splits.items() if self.split is None and len(r) > 0]
        return any(self._handle.target(n) is not None
                   for n in [self._numbers[0]] + [r[0] for r in splits])

    def _choose(self, extensions, is_valid_file) -> None:
        if extensions is None and is_valid_file is None:
            return
        if is_valid_file is None:
            ends = (extensions,) if isinstance(extensions, str) else tuple(extensions)

            def is_valid_file(key: str) -> bool:
                return key.lower().endswith(ends)
        handle = self._open()
        chosen = array.array("q", (n for n in self._numbers if is_valid_file(handle.key(n))))
        if len(chosen) == 0:
            by = "is_valid_file" if extensions is None else "extensions=%r" % (extensions,)
            raise FileNotFoundError("none of the %d samples of %s is chosen by %s"
                                    % (len(self._numbers), self.url, by))
        if len(chosen) < len(self._numbers):
            self._numbers = chosen

    def _process(self) -> None:
        if type(self).process is Dataset.process:
            return
        made = self.process(SampleTable(self._open(), self._numbers))
        if made is None:
            return
        numbers, self._given = array.array("q"), []
        for place, entry in enumerate(made):
            try:
                which, target = entry
                numbers.append(self._number_of(which))
            except (TypeError, ValueError, LookupError, dlcache.Error) as error:
                raise ValueError("process() returned %r at place %d: %s; return a list of (key or "
                                 "index in the table, target)" % (entry, place, error)) from error
            self._given.append(target)
        self._numbers = numbers

    def _number_of(self, which) -> int:
        if isinstance(which, str):
            return self._open().find(which)
        return self._numbers[position_of(which, len(self._numbers))]

    def process(self, table: SampleTable) -> Optional[Sequence[Tuple[Union[str, int], Any]]]:
        """To override: the items of this dataset, as (key or index in the table, target) each.

        Called once, when the dataset is opened. None: as they are.
        """
        return None

    def load_sample(self, data: memoryview, key: str) -> Any:
        """To override: the sample made of these bytes. Keep no reference to `data`: copy."""
        if self.loader is not None:
            return self.loader(SampleFile(data, key))
        return decode(data, key, self.decode)

    def load_target(self, target: Any) -> Any:
        """To override: the target made of a class number, a decoded target file, or what
        process() gave."""
        return target

    def __len__(self) -> int:
        return len(self._numbers)

    def key(self, index: int) -> str:
        """The key of an item."""
        return self._open().key(self._numbers[position_of(index, len(self))])

    @property
    def classes(self) -> List[str]:
        return self._open().classes

    @property
    def class_to_idx(self) -> Dict[str, int]:
        return self._open().class_to_idx

    @property
    def targets(self) -> LazySequence:
        """The target of each item, where none has to be read for it; a lazy sequence."""
        if self._given is None and not self._has_labels:
            raise AttributeError("the samples of %s have no labels; their targets, if any, are in "
                                 "files or groups: read the items" % self.url)
        return LazySequence(len(self), self._known_target)

    @property
    def samples(self) -> LazySequence:
        """(key, target) of each item, a lazy sequence; None for a target that is in a file."""
        return LazySequence(len(self), lambda i: (self.key(i), self._known_target(i)))

    imgs = samples

    def _known_target(self, index: int) -> Any:
        if self._given is not None:
            return self._given[index]
        labels = self._open().labels
        return None if labels is None else labels[self._numbers[index]]

    @property
    def transforms(self) -> Optional[Callable]:
        """What is called with sample and target, if anything."""
        if self.transform is None and self.target_transform is None:
            return self._joint
        return StandardTransform(self.transform, self.target_transform)

    @transforms.setter
    def transforms(self, value: Optional[Callable]) -> None:
        self.transform = self.target_transform = None
        self._joint = value

    def __repr__(self) -> str:
        lines = ["Number of datapoints: %d" % len(self), "Root location: %s" % self.root]
        lines += ["Split: %s" % self.split] if self.split is not None else []
        lines += self.extra_repr().splitlines()
        lines += [repr(self.transforms)] if self.transforms is not None else []
        return "\n".join(["Dataset " + type(self).__name__] + ["    " + line for line in lines])

    def extra_repr(self) -> str:
        """To override: more lines of the repr."""
        return ""

    # -- items

    def __getitem__(self, index: int) -> Any:
        index = position_of(index, len(self))
        try:
            return self._good(self._make(index, self._reader(index)))
        except BadSample as bad:
            item = self._replacement(bad)
            self._error_log.place([None])
            return item

    def __getitems__(self, indices: Sequence[int]) -> List[Any]:
        """The items of a batch, read with one call.

        Under on_error="skip" there may be fewer than were asked for, even none.
        """
        indices = [position_of(index, len(self)) for index in indices]
        views = self._read_batch(indices)
        items: List[Any] = []
        places: List[Optional[int]] = []  # of the items, among the indices
        try:
            for place, index in enumerate(indices):
                as_asked = self._add_item(items, index, views.popleft())
                if len(items) > len(places):
                    places.append(place if as_asked else None)
        finally:
            for pair in views:  # what an error left
                release_views(*pair)
        if len(items) < len(indices) or None in places:
            self._error_log.place(places)
        return items

    def _add_item(self, items: List[Any], index: int, pair: Tuple) -> bool:
        """False: it was left out, or another stands in for it."""
        read = (lambda: pair) if pair else self._reader(index)
        try:
            items.append(self._good(self._make(index, read)))
            return True
        except BadSample as bad:
            if self.on_error == "skip":
                self._skip(bad)
            else:
                items.append(self._replacement(bad))
            return False

    def __iter__(self):
        return (self[index] for index in range(len(self)))

    def _reader(self, index: int) -> Callable[[], Tuple[memoryview, Optional[memoryview]]]:
        """A function that reads a sample, and its target where that is a file."""
        handle, number = self._open(), self._numbers[index]

        def read():
            target = handle.read_target(number) if self.reads_targets else None
            return handle[number], target
        return read

    def _read_batch(self, indices: List[int]) -> collections.deque:
        """(sample, target or None) per index, read with one call; () where one cannot be read."""
        handle = self._open()
        numbers = [self._numbers[index] for index in indices]
        try:
            if self.reads_targets:
                return collections.deque(zip(*handle.read_pairs(numbers)))
            return collections.deque((view, None) for view in handle.read_many(numbers))
        except OF_THE_SAMPLE:
            return collections.deque(() for _ in indices)  # one by one, to see which

    def _make(self, index: int, read: Callable) -> Any:
        """The item; BadSample when it cannot be made."""
        note_sample(index)
        data, file = self._stage("read", index, read)
        try:
            sample = self._stage("decode", index, self.load_sample, data, self.key(index))
            target = self._stage("decode", index, self._target, index, file)
        finally:
            release_views(data, file)
        has_target = self._has_target()
        if isinstance(sample, Group):
            pair = None if has_target else sample.pair()
            has_target = has_target or pair is not None
            sample, target = pair or (dict(sample), target)
        if self._joint is not None:
            sample, target = self._stage("transforms", index, self._joint, sample, target)
        if self.transform is not None:
            sample = self._stage("transform", index, self.transform, sample)
        if has_target and self.target_transform is not None:
            target = self._stage("target_transform", index, self.target_transform, target)
        return (sample, target) if has_target else sample

    def _stage(self, stage: str, index: int, function: Callable, *args) -> Any:
        try:
            return function(*args)
        except Exception as error:
            raise BadSample(index, self.key(index), stage, error) from error

    def _has_target(self) -> bool:
        return self._given is not None or self._has_labels or self._has_files

    def _target(self, index: int, file: Optional[memoryview]) -> Any:
        if not self._has_target():
            return None
        if file is None and self.reads_targets:
            return None  # of a split without target files
        if file is None:
            return self.load_target(self._known_target(index))
        key = self._open().target_key(self._numbers[index])
        how = "target" if self.target_decode == "auto" else self.target_decode
        return self.load_target(decode(file, key or "", how))

    # -- bad ones

    def _good(self, item: Any) -> Any:
        self._error_log.in_a_row = 0
        return item

    def _replacement(self, bad: BadSample) -> Any:
        """The next good one; raises when errors are not to be forgiven."""
        if self.on_error == "raise" or not bad.tolerable():
            raise bad.explained() from bad.cause
        self._error_log.add(bad, "replaced")
        for step in range(1, min(REPLACEMENT_TRIES, len(self) - 1) + 1):
            index = (bad.index + step) % len(self)
            try:
                return self._good(self._make(index, self._reader(index)))
            except BadSample as next_bad:
                if not next_bad.tolerable():
                    raise next_bad.explained() from next_bad.cause
        raise bad.explained("; the next %d samples are bad too"
                            % min(REPLACEMENT_TRIES, len(self) - 1)) from bad.cause

    def _skip(self, bad: BadSample) -> None:
        if not bad.tolerable():
            raise bad.explained() from bad.cause
        self._error_log.add(bad, "skipped")
        if self._error_log.in_a_row >= BAD_IN_A_ROW:
            raise bad.explained("; and so did the %d before it" % (BAD_IN_A_ROW - 1)) from bad.cause

    @property
    def errors(self) -> collections.Counter:
        """How many items were skipped or replaced, by the stage that failed."""
        self._error_log._mine()
        return self._error_log.errors

    @property
    def bad(self) -> List[Tuple[int, str, str]]:
        """(index, key, reason) of them, the first thousand."""
        self._error_log._mine()
        return self._error_log.bad

    def take_errors(self) -> Optional[Dict[str, Any]]:
        """What was forgiven since the last call: {"skipped", "replaced", "stages", "bad", "places"},
        or None. "places" is of the last batch: which of its indices each item is of, None for one
        that stands in for another.

        Workers send it along with each batch.
        """
        return self._error_log.take()

    def add_errors(self, reported: Mapping[str, Any]) -> None:
        """Count what take_errors() gave in a worker."""
        self._error_log.merge(reported)

    # -- for the loader

    def source(self) -> Tuple[dlcache.Dataset, Optional[Sequence[int]]]:
        """The handle that is read, and the sample number of each item; None: they are the same."""
        handle = self._open()
        whole = isinstance(self._numbers, range) and self._numbers == range(len(handle))
        return handle, None if whole else self._numbers

    @property
    def reads_targets(self) -> bool:
        """The target file of a sample is read along with it."""
        return self._has_files and self._given is None

    @property
    def snapshot(self) -> str:
        """Which list of the bucket this is (dlcache.Dataset.snapshot)."""
        return self._options["snapshot"]

    @property
    def version(self) -> int:
        """Changes whenever an attribute is set."""
        return self._version

    def _open(self) -> dlcache.Dataset:
        if self._handle is None:
            self._handle = dlcache.open(self.url, **self._options)
        return self._handle

    def __setattr__(self, name: str, value: Any) -> None:
        if name in CHECKS:
            CHECKS[name](value)
        super().__setattr__(name, value)
        if name in ("transform", "target_transform") and value is not None:
            self._joint = None
        if not name.startswith("_"):
            super().__setattr__("_version", self._version + 1)

    def __getstate__(self) -> Dict[str, Any]:
        return dict(self.__dict__, _handle=None, _error_log=ErrorLog())

    def __setstate__(self, state: Dict[str, Any]) -> None:
        self.__dict__.update(state)


def _check_on_error(value: Any) -> None:
    if value not in ON_ERROR:
        raise ValueError("on_error=%r is unknown; there are %s" % (value, ", ".join(ON_ERROR)))


CHECKS = {"on_error": _check_on_error, "decode": check_decode, "target_decode": check_decode}
