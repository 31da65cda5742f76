"""odmlib.train_stream: training on rows that do not fit into memory."""

from __future__ import annotations

import os
import warnings
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, nullcontext, suppress
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from odmlib._core.arrays import Floats
from odmlib.data.dataset import Dataset, checked_width, refuse_masked
from odmlib.data.problem import check_sample_weights
from odmlib.data.reading import read_parts
from odmlib.data.row_store import CacheFormatError, Identity, RowStore, Sample, StoredBlock, read_ahead
from odmlib.errors import ConvergenceWarning, ParameterError
from odmlib.machines.building import convergence_message
from odmlib.machines.streaming import check_streamed_options, cross_validate_store, train_store
from odmlib.machines.training import make_settings
from odmlib.model.model import Model
from odmlib.model.text_writer import check_numbers
from odmlib.options import TrainOptions
from odmlib.selection.grid import GridResult, one_by_one, search_rates
from odmlib.selection.path_run import Rate
from odmlib.solvers.control import CONVERGED
from odmlib.values import shown_value

# parts of the memory: a pass holds 4 blocks and what it computes of one, the sample is solved in memory
BLOCK_PART, SAMPLE_PART, TEXT_PART = 1 / 12, 1 / 8, 1 / 24
LEAST_BLOCK, LARGEST_BLOCK = 1 << 12, 1 << 26


def train_stream(
    source: str | os.PathLike | Iterable,
    *,
    cache_dir: str | os.PathLike | None = None,
    keep_cache: bool = False,
    features: int | None = None,
    zero_based: bool = False,
    **options: Any,
) -> Model:
    """Train a linear machine (odm, svm or odml) on rows that need not fit into memory; returns its Model.

    source      a file in LIBSVM format, or an iterable of blocks: (X, y) or (X, y, row weights)
    cache_dir   where the cache of the rows is written, about as large as the rows in memory (default: the
                current directory)
    keep_cache  leave the cache there for other runs on the same file; otherwise it is removed at the end
    features, zero_based  as of `read_data`

    All other options are those of `train`. The kernel is linear. `cache_mb` bounds the memory that training
    takes. The rows are read once, into a cache that later passes read. The certificate is the relative
    duality gap over all rows, as of `train`; `report["details"]["passes"]` says how often the cache was read.

    >>> import odmlib
    >>> model = odmlib.train_stream("data/wdbc.train.txt", C=0.01)
    >>> model.report["status"]
    'converged'
    """
    settings = make_settings({"kernel": "linear"} | options)
    check_streamed_options(settings)
    with stored_rows(source, settings, cache_dir, keep_cache, features, zero_based) as (store, sample):
        model = train_store(store, sample, settings)
    check_numbers(model)
    if model.report["status"] != CONVERGED:
        warnings.warn(convergence_message(model.report, settings.tol), ConvergenceWarning, stacklevel=2)
    return model


def search_store(
    store: RowStore, sample: StoredBlock, options: TrainOptions, axes: Any, *, folds: int = 5, **how: Any
) -> GridResult:
    """`search` of grid.py on the rows of a store."""

    def validate(options: TrainOptions) -> Rate:
        return Rate(*cross_validate_store(store, sample, options, folds))

    return search_rates(partial(one_by_one, validate), options, axes, **how)


@contextmanager
def stored_rows(
    source: Any,
    options: TrainOptions,
    cache_dir: str | os.PathLike | None = None,
    keep_cache: bool = False,
    features: int | None = None,
    zero_based: bool = False,
) -> Iterator[tuple[RowStore, StoredBlock]]:
    """The rows of a source in a cache, made or found, and a sample of them; at the end the cache is removed.

    Whatever ends the `with` early removes the cache too, unless it is to be kept.
    """
    folder = os.fspath(cache_dir or os.curdir)
    if not os.path.isdir(folder):
        raise ParameterError(f"the folder of the cache (--cache-dir) does not exist: {folder}")
    memory = options.cache_bytes
    block_bytes = int(min(max(memory * BLOCK_PART, LEAST_BLOCK), LARGEST_BLOCK))
    sample = Sample(int(memory * SAMPLE_PART), options.seed)
    store, identity = None, None
    if isinstance(source, str | os.PathLike):
        path = os.fspath(source)
        if path != "-" and os.path.isfile(
            path
        ):  # neither a pipe nor a device, which is another one each time
            identity = Identity.of_file(path, features, zero_based, block_bytes)
        text = int(max(memory * TEXT_PART, 1 << 16))
        parts: Iterable = read_parts(path, zero_based, options.threads, features, text)
    else:
        parts = _checked_parts(source, features)
    if identity is None:
        name = os.path.join(folder, f"stream-{os.getpid()}-{os.urandom(4).hex()}.odmrows")
        keep_cache = False
    else:
        name = os.path.join(folder, identity.cache_name())
        store = RowStore.reopen(name, identity)
    before = _inode(name)

    def let_go() -> None:
        if store is not None:
            store.close()
        # an interrupt may come when the file has its name and nobody holds it yet; another run may have
        # put its own cache there
        found = _inode(name)
        ours = found != before if store is None else found == store.inode
        if not keep_cache and found is not None and ours:
            Path(name).unlink(missing_ok=True)

    try:
        try:
            if store is not None:
                store.draw(sample)
            else:
                # a thread that waits for a pipe could not be ended by Ctrl-C
                apart = nullcontext(parts) if identity is None else read_ahead(iter(parts), 1)
                with apart as coming:
                    store = RowStore.make(name, coming, block_bytes, identity, sample, features)
                if identity is not None and identity != Identity.of_file(
                    path, features, zero_based, block_bytes
                ):
                    keep_cache = False
                    raise ParameterError(f"{path} was changed while it was read")
            if identity is None:  # of no use for another run, and a kill must not leave it
                with suppress(OSError):  # where the system removes no open files
                    os.unlink(name)
            yield store, sample.block(store.n_features)
        except CacheFormatError:
            keep_cache = True  # the message tells the user to delete it
            raise
        finally:
            let_go()
    finally:
        let_go()  # whatever interrupted the first call


def _inode(name: str) -> int | None:
    try:
        return os.stat(name).st_ino
    except FileNotFoundError:
        return None


def _checked_parts(source: Any, features: int | None) -> Iterator[tuple[Dataset, Any, Floats | None]]:
    """The blocks of an iterable as rows with labels and weights."""
    if not isinstance(source, Iterable):
        raise ParameterError(
            f"source must be the name of a file or an iterable of blocks (X, y), found {shown_value(source)}"
        )
    width = None if features is None else checked_width(features, "features")
    for number, block in enumerate(source, 1):
        if not isinstance(block, tuple | list) or len(block) not in (2, 3):
            raise ParameterError(f"block {number} of the source must be (X, y) or (X, y, weights)")
        rows = Dataset.from_any(block[0], f"X of block {number}")
        refuse_masked(block[1], f"y of block {number}")
        y = np.asarray(block[1])
        if y.shape[:1] != (rows.n_rows,):
            raise ParameterError(f"block {number} has {rows.n_rows} rows but {len(np.atleast_1d(y))} labels")
        if width is None:
            width = rows.n_features
        if rows.n_features != width:
            raise ParameterError(f"block {number} has {rows.n_features} features, expected {width}")
        weights = check_sample_weights(block[2], rows.n_rows, whole=False) if len(block) == 3 else None
        if rows.n_rows:
            yield rows, y, weights
