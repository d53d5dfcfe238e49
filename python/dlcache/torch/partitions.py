# SPDX-License-Identifier: Apache-2.0
"""Partitions: rows of tables that are larger than memory, one partition at a time.

The catalog cuts large csv, tsv, npy and parquet files into partitions (docs/datasets.md), each a
small file of the same kind. This reads them one after another:

    daemon:   fetching k+1 ......  k+2 ......            (follow(): it knows what comes)
    process:  parse k, rows of k   parse k+1, rows ...   (holds one table)

(PARTITION-1) Each row comes exactly once per epoch, over all ranks and all workers of a torch
     DataLoader.
(PARTITION-2) A process holds one partition at a time: as bytes of the cache while it is parsed,
     then as a table. Rows and batches are copies; keeping them keeps nothing else.
(PARTITION-3) The sequence depends on seed, epoch, rank, world and the number of workers only.
(PARTITION-4) Rows have the same columns and types in all workers and ranks: both are taken from
     the first partition, in every process.
"""
import math
import re
import warnings
from typing import (Any, Callable, Dict, Iterator, List, Mapping, NamedTuple, Optional, Sequence,
                    Tuple, Union)

import torch
import torch.distributed
import torch.utils.data

import dlcache

from dlcache.torch.decode import (CsvDialect, csv_dialect, csv_rows, decode, guess, is_number,
                                  require, suffix_of, text_of)
from dlcache.torch.order.ranks import open_agreed
from dlcache.torch.sample_table import LazySequence
from dlcache.torch.sources import position_of, release_views, split_of, url_of

ROWS = ("auto", "tensor", "dict", "tuple")
SEEN_ROWS = 1000  # of the first partition, to tell numbers from texts
ROW_RANGE = re.compile(r"/rows (\d+)-(\d+)$")
INTEGER = re.compile(r"\s*[-+]?\d+\s*")


class Schema(NamedTuple):
    """Columns of a csv, the same in all partitions."""

    dialect: CsvDialect
    types: Dict[str, type]  # int, float or str

    def numeric(self) -> bool:
        return str not in self.types.values()


class Partitions(torch.utils.data.IterableDataset):
    """The rows below a URL, in sequence, with the memory of one partition.

        rows = Partitions("s3://my-bucket/clicks/", shuffle=True, batch=4096)
        for epoch in range(10):
            rows.set_epoch(epoch)
            for batch in torch.utils.data.DataLoader(rows, batch_size=None, num_workers=2):
                ...

    What a row is:
        npy                       a tensor, of the file's type
        csv, tsv, parquet         numbers in all columns: a tensor of `dtype`; empty fields are nan
                                  a text in any column: a dict of column to int, float or str
    With batch=n items are up to n rows: a tensor with one more dimension, or a dict of column to
    tensor or list of texts. They do not reach over the end of a partition. batch=None: single rows.

    url        where the tables lie; a path means file://
    split      "train", "validation" or "test"; None: all
    parse      "auto", or a callable that gets (memoryview, key) and returns a table: a tensor or
               array, a dict of columns, or a sequence of rows
    rows       "auto" as above; "tensor", "dict" or "tuple" say what a row of columns is to be
    types      {column: int, float or str} for columns of a csv whose type is not as it seems
    dtype      of rows that are tensors made of columns
    transform  called with each item
    shuffle    partitions come in a random order, and the rows of each too; another one per epoch.
               Rows far from each other never meet: write files that are mixed already.
    seed       of the shuffle
    rank, world  this process of so many; default: torch.distributed's. Partitions are dealt out
               whole, so ranks may have different numbers of rows.
    All other arguments go to dlcache.open().

    len() is known where the catalog knows the rows: of files that were cut.
    """

    def __init__(self, url: str, *, split: Optional[str] = None,
                 parse: Union[str, Callable] = "auto", rows: str = "auto",
                 types: Optional[Mapping[str, type]] = None, dtype: torch.dtype = torch.float32,
                 transform: Optional[Callable] = None, batch: Optional[int] = None,
                 shuffle: bool = False, seed: int = 0, rank: Optional[int] = None,
                 world: Optional[int] = None, **options):
        _check(parse, rows, batch, rank, world)
        self.url, self.split, self.parse, self.rows = url_of(url), split, parse, rows
        self.types, self.dtype = dict(types or {}), dtype
        self.transform, self.batch = transform, batch
        self.shuffle, self.seed = shuffle, seed
        self._rank, self._world = rank, world
        self._epoch = torch.zeros(1, dtype=torch.int64).share_memory_()  # workers see it change
        self._schema: Optional[Schema] = None
        self._handle: Optional[dlcache.Dataset] = open_agreed(self.url, **options)
        self._options = dict(options, refresh=False, snapshot=self._handle.snapshot)
        self._numbers = split_of(self._handle, split)

    # -- which partitions

    @property
    def keys(self) -> LazySequence:
        """The keys of the partitions, all of the split."""
        handle, numbers = self._open(), self._numbers
        return LazySequence(len(numbers), lambda i: handle.key(numbers[i]))

    def set_epoch(self, epoch: int) -> None:
        """Which shuffle comes next; also for workers that run already."""
        self._epoch[0] = epoch

    @property
    def epoch(self) -> int:
        return int(self._epoch[0])

    def ranks(self) -> Tuple[int, int]:
        """(rank, world)"""
        if self._rank is not None and self._world is not None:
            return self._rank, self._world
        if torch.distributed.is_available() and torch.distributed.is_initialized():
            return torch.distributed.get_rank(), torch.distributed.get_world_size()
        return 0, 1

    def order(self) -> List[int]:
        """The partitions of this rank in this epoch, as places in `keys`."""
        count, (rank, world) = len(self._numbers), self.ranks()
        if not self.shuffle or count == 0:
            return list(range(count))[rank::world]
        return list(dlcache.order_list(count, seed=self.seed, epoch=self.epoch))[rank::world]

    def __len__(self) -> int:
        """Items of this rank in this epoch; TypeError when the catalog does not know."""
        keys, total = self.keys, 0
        for place in self.order():
            found = ROW_RANGE.search(keys[place])
            if found is None:
                raise TypeError("the number of rows of %s is not known before it is read"
                                % keys[place])
            count = int(found[2]) - int(found[1]) + 1
            total += count if self.batch is None else math.ceil(count / self.batch)
        return total

    # -- reading

    def __iter__(self) -> Iterator[Any]:
        worker = torch.utils.data.get_worker_info()
        mine, epoch = self.order(), self.epoch
        if worker is not None:
            mine = mine[worker.id::worker.num_workers]
        if not mine:
            return
        with dlcache.open(self.url, **self._options) as handle:  # an order of its own
            handle.follow([self._numbers[place] for place in mine], epochs=1)
            for place, (number, data) in zip(mine, iter(handle.next, None)):
                yield from self._items(self._table(data, handle.key(number)), epoch, place)

    def partition(self, i: int) -> Any:
        """One partition as a whole: a tensor, a dict of columns, or what `parse` returned."""
        handle = self._open()
        number = self._numbers[position_of(i, len(self._numbers))]
        return self._table(handle[number], handle.key(number))

    def _items(self, table: Any, epoch: int, place: int) -> Iterator[Any]:
        count = _count(table)
        if self.shuffle:
            seed = ((self.seed * 1_000_003 + epoch) * 1_000_003 + place) % 2**63
            picked = torch.randperm(count, generator=torch.Generator().manual_seed(seed))
        else:
            picked = torch.arange(count)
        for at in range(0, count, self.batch or 1):
            item = (self._row(table, int(picked[at])) if self.batch is None else
                    self._batch(table, picked[at:at + self.batch]))
            yield item if self.transform is None else self.transform(item)

    def _row(self, table: Any, i: int) -> Any:
        if isinstance(table, torch.Tensor):
            return table[i].clone()
        if not isinstance(table, Mapping):
            return table[i]
        values = {name: _scalar(column[i]) for name, column in table.items()}
        return tuple(values.values()) if self.rows == "tuple" else values

    def _batch(self, table: Any, picked: torch.Tensor) -> Any:
        if not isinstance(table, Mapping):
            return _pick(table, picked)
        columns = {name: _pick(column, picked) for name, column in table.items()}
        return tuple(columns.values()) if self.rows == "tuple" else columns

    # -- parsing

    def _table(self, data: memoryview, key: str) -> Any:
        try:
            if callable(self.parse):
                return self.parse(data, key)
            file = ROW_RANGE.sub("", key)
            kind = guess(data, file) if self.parse == "auto" else self.parse
            if kind in ("csv", "tsv"):
                return self._csv(data, kind == "tsv", key)
            if kind == "parquet":
                return self._formed(_parquet(data, key))
            if kind == "npy":
                return decode(data, key, "npy")
            raise ValueError("%s is not a csv, tsv, npy or parquet file; give parse= a function that "
                             "reads '.%s'" % (key, suffix_of(file)))
        finally:
            release_views(data)

    def _csv(self, data: memoryview, tabs: bool, key: str) -> Any:
        schema = self._seen(tabs)
        dialect = csv_dialect(data, tabs)
        named = dialect.header and schema.dialect.header
        if (len(dialect.names) != len(schema.dialect.names)
                or named and dialect.names != schema.dialect.names):
            raise ValueError("%s has the columns %s, but the first partition has %s"
                             % (key, ", ".join(dialect.names), ", ".join(schema.dialect.names)))
        dialect = schema.dialect._replace(delimiter=dialect.delimiter)
        try:
            if schema.numeric() and self.rows in ("auto", "tensor"):
                return _numbers_of(data, dialect, self.dtype)
            return self._formed(_columns_of(data, dialect, schema.types))
        except ValueError as error:
            raise ValueError("%s: %s" % (key, error)) from error

    def _formed(self, columns: Dict[str, Any]) -> Any:
        """Columns as the rows are wanted."""
        texts = [name for name, column in columns.items() if not isinstance(column, torch.Tensor)]
        if self.rows == "tensor" and texts:
            raise ValueError("rows cannot be tensors: there are texts in %s" % ", ".join(texts))
        if self.rows == "tensor" or (self.rows == "auto" and not texts):
            return torch.stack([column.to(self.dtype) for column in columns.values()], 1)
        return columns

    def _seen(self, tabs: bool) -> Schema:
        """(PARTITION-4)"""
        if self._schema is None:
            handle, first = self._open(), self._numbers[0]
            data = handle[first]
            try:
                self._schema = _schema(data, tabs, self.types)
            except ValueError as error:
                raise ValueError("%s: %s" % (handle.key(first), error)) from error
            finally:
                release_views(data)
        return self._schema

    # -- processes

    def _open(self) -> dlcache.Dataset:
        if self._handle is None:
            self._handle = dlcache.open(self.url, **self._options)
        return self._handle

    def __getstate__(self) -> Dict[str, Any]:
        rank, world = self.ranks()  # a spawned worker knows no torch.distributed
        return dict(self.__dict__, _handle=None, _rank=rank, _world=world)


# ---- tables ----


def _schema(data: memoryview, tabs: bool, given: Mapping[str, type]) -> Schema:
    dialect = csv_dialect(data, tabs)
    unknown = set(given) - set(dialect.names)
    if unknown:
        raise ValueError("types names the column %s; there are %s"
                         % (", ".join(sorted(unknown)), ", ".join(dialect.names)))
    seen = [row for row, _ in zip(csv_rows(data, dialect), range(SEEN_ROWS))]
    return Schema(dialect, {name: given.get(name) or _type([row[k] for row in seen])
                            for k, name in enumerate(dialect.names)})


def _type(texts: Sequence[str]) -> type:
    filled = [text for text in texts if text.strip()]
    if all(INTEGER.fullmatch(text) for text in filled) and len(filled) == len(texts):
        return int
    return float if all(is_number(text) for text in filled) else str


def _numbers_of(data: memoryview, dialect: CsvDialect, dtype: torch.dtype) -> torch.Tensor:
    """A csv of numbers as one tensor; with numpy's parser, and slowly where that gives up."""
    try:
        return torch.from_numpy(_parsed(data, dialect, dtype))
    except (ValueError, DeprecationWarning):  # an empty field; an integer with a fraction
        kind = float if dtype.is_floating_point else int
        rows = [[_number(text, name, kind) for text, name in zip(row, dialect.names)]
                for row in csv_rows(data, dialect)]
        return torch.tensor(rows, dtype=dtype).reshape(len(rows), len(dialect.names))


def _parsed(data: memoryview, dialect: CsvDialect, dtype: torch.dtype):
    kind = torch.empty(0, dtype=dtype).numpy().dtype
    with text_of(data) as text, warnings.catch_warnings():
        warnings.simplefilter("error", DeprecationWarning)
        warnings.simplefilter("ignore", UserWarning)  # no rows
        lines = (line for line in text if line.strip())
        if dialect.header:
            next(lines, None)
        table = require("numpy").loadtxt(lines, kind, delimiter=dialect.delimiter, comments=None,
                                         quotechar='"', ndmin=2)
    return table.reshape(-1, len(dialect.names))


def _columns_of(data: memoryview, dialect: CsvDialect, types: Mapping[str, type]) -> Dict[str, Any]:
    rows = list(csv_rows(data, dialect))
    columns: Dict[str, Any] = {}
    for k, (name, kind) in enumerate(types.items()):
        texts = [row[k] for row in rows]
        if kind is str:
            columns[name] = texts
        else:
            dtype = torch.int64 if kind is int else torch.float32
            columns[name] = torch.tensor([_number(text, name, kind) for text in texts], dtype=dtype)
    return columns


def _number(text: str, column: str, kind: type = float) -> Union[int, float]:
    try:
        return math.nan if kind is float and not text.strip() else kind(text)
    except ValueError:
        raise ValueError("column %s has %r, which is no %s; if it is none, say types={%r: str}"
                         % (column, text[:60], kind.__name__, column)) from None


def _parquet(data: memoryview, key: str) -> Dict[str, Any]:
    columns = decode(data, key, "parquet")
    return {name: _tensor_or_list(values) for name, values in columns.items()}


def _tensor_or_list(values: List[Any]) -> Any:
    kinds = {type(value) for value in values}
    if kinds <= {bool} or kinds <= {int}:
        return torch.tensor(values)
    if kinds <= {int, float, type(None)}:
        return torch.tensor([math.nan if v is None else v for v in values], dtype=torch.float32)
    return values


def _count(table: Any) -> int:
    return len(next(iter(table.values()), ())) if isinstance(table, Mapping) else len(table)


def _pick(column: Any, picked: torch.Tensor) -> Any:
    """Some rows, copied."""
    if isinstance(column, torch.Tensor):
        return column[picked]
    if hasattr(column, "take"):  # numpy
        return column.take(picked.numpy(), 0)
    return [column[int(i)] for i in picked]


def _scalar(value: Any) -> Any:
    return value.item() if isinstance(value, torch.Tensor) and value.dim() == 0 else value


def _check(parse, rows, batch, rank, world) -> None:
    if parse not in ("auto", "csv", "tsv", "npy", "parquet") and not callable(parse):
        raise ValueError("parse=%r is unknown; there are auto, csv, tsv, npy and parquet, or give "
                         "a callable" % (parse,))
    if rows not in ROWS:
        raise ValueError("rows=%r is unknown; there are %s" % (rows, ", ".join(ROWS)))
    if batch is not None and batch < 1:
        raise ValueError("batch is %r; it is a number of rows, or None for single ones" % (batch,))
    if (rank is None) != (world is None) or (rank is not None and not 0 <= rank < world):
        raise ValueError("rank is %r and world %r; give both, with 0 <= rank < world"
                         % (rank, world))
