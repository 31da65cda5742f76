"""Real data sets by name: where they are, and how to get them.

    python -m benchmarks.data                              list the sets, and which of them are here
    python -m benchmarks.data get heart vowel              fetch them from their public home
    python -m benchmarks.data get vowel --from FOLDER      ... from a folder or an address that mirrors them

Sets are looked for in $ODMLIB_DATA and in ../shared/data; `get` writes into $ODMLIB_DATA. A name of the
papers may stand for several files: vowel is vowel.scale and vowel.scale.t. After reading a file that came
from elsewhere, the numbers in it are compared with the checksum in data.tsv, which depends neither on how
the file is packed nor on how its numbers are written. A file with another checksum, or without a known
one, is only kept with --trust.
"""

from __future__ import annotations

import argparse
import functools
import hashlib
import http.client
import os
import shutil
import sys
import tempfile
import urllib.error
import urllib.request
from pathlib import Path
from typing import Any

import numpy as np

SHARED = Path(__file__).resolve().parent.parent.parent / "shared" / "data"
CHECKSUMS = Path(__file__).resolve().parent / "data.tsv"
HOME = "https://www.csie.ntu.edu.tw/~cjlin/libsvmtools/datasets"
SUFFIXES = (".libsvm", ".libsvm.xz", "", ".bz2", ".xz", ".gz")

# names of the papers, and the files whose rows they have; a name that is not here is that of its file
FILES = {
    "adult-a": ("a9a",),
    "a7a": ("a9a",),  # the SODM paper's a7a has 32,561 rows: those of a9a
    "breast": ("breast-cancer-ljubljana.nomissing",),
    "credit-g": ("german.credit",),
    "diabetes": ("diabetes_scale",),
    "dna": ("dna.scale", "dna.scale.t"),
    "german": ("german.numer",),
    "glass": ("glass.scale",),
    "house": ("house-votes",),  # 232 rows without missing values
    "ijcnn1": ("ijcnn1", "ijcnn1.t"),
    "image": ("ida_image",),
    "letter": ("letter", "letter.t"),
    "liverDisorders": ("liver-disorders",),
    "mnist": ("mnist", "mnist.t"),
    "pendigits": ("pendigits", "pendigits.t"),
    "krvskp": ("chess-krvkp",),
    "satimage": ("satimage.scale", "satimage.scale.t"),
    "segment": ("segment.scale",),
    "shuttle": ("shuttle", "shuttle.t"),
    "skin-nonskin": ("skin_nonskin",),
    "SUSY": ("SUSY.30k",),  # 30,000 of 5,000,000 rows
    "svmguide1": ("svmguide1", "svmguide1.t"),
    "svmguide4": ("svmguide4", "svmguide4.t"),
    "thyroid": ("thyroid.binary",),
    "heart-statlog": ("heart",),
    "heart": ("heart.9",),  # the papers' heart has 9 of the 13 features of heart-statlog
    "house-votes": ("house-votes.435",),  # with the rows that miss values, which house leaves out
    "vehicle": ("vehicle.scale",),
    "vowel": ("vowel.scale", "vowel.scale.t"),
    "waveform": ("ida_waveform",),
    "wine": ("wine.scale",),
}
MULTICLASS = (
    "connect-4",
    "dna.scale",
    "glass.scale",
    "iris",
    "letter",
    "mnist",
    "news20",
    "pendigits",
    "satimage.scale",
    "segment.scale",
    "shuttle",
    "svmguide2",
    "svmguide4",
    "vehicle.scale",
    "vowel.scale",
    "wine.scale",
)


class NotHere(Exception):
    """A set that is in none of the folders; the text says how to get it."""


def folders() -> list[Path]:
    own = os.environ.get("ODMLIB_DATA")
    return [*([Path(own)] if own else []), SHARED]


def find(file: str) -> Path | None:
    """The path of one file, whatever its suffix."""
    for folder in folders():
        for suffix in SUFFIXES:
            if (path := folder / (file + suffix)).is_file():
                return path
    return None


def files_of(name: str) -> tuple[str, ...]:
    return FILES.get(name, (name,))


def is_here(name: str) -> bool:
    return all(find(file) is not None for file in files_of(name))


@functools.lru_cache(maxsize=4)
def load(name: str) -> tuple[Any, Any]:
    """(X as scipy.sparse rows, y) with the rows of all files of a set; NotHere if one is missing."""
    import scipy.sparse

    from odmlib.data.reading import read_data

    parts = []
    for file in files_of(name):
        if (path := find(file)) is None:
            raise NotHere(
                f"{name}: {file} is not in {' or '.join(map(str, folders()))}; get it by "
                f"python -m benchmarks.data get {name}"
            )
        parts.append(read_data(path))
    width = max(X.shape[1] for X, _ in parts)
    for X, _ in parts:
        X.resize(X.shape[0], width)
    return scipy.sparse.vstack([X for X, _ in parts]).tocsr(), np.concatenate([y for _, y in parts])


def checksum(path: Path) -> str:
    """Of the numbers in a file."""
    from odmlib.data.reading import read_dataset

    rows, labels = read_dataset(path)
    digest = hashlib.sha256()
    for part in (labels, rows.indptr, rows.indices, rows.values):
        kept = np.asarray(part)
        digest.update(np.ascontiguousarray(kept.astype("<i8" if kept.dtype.kind == "i" else "<f8")).tobytes())
    return digest.hexdigest()


def known_checksums() -> dict[str, str]:
    lines = CHECKSUMS.read_text().splitlines()[1:]
    return dict(line.split("\t") for line in lines)


def get(name: str, source: str | None = None, trust: bool = False) -> list[Path]:
    """Fetch the files of a set that are not here into $ODMLIB_DATA; the paths of the new ones."""
    own = os.environ.get("ODMLIB_DATA")
    if not own:
        raise SystemExit("set ODMLIB_DATA to the folder that is to hold the data")
    Path(own).mkdir(parents=True, exist_ok=True)
    return [_get_file(file, Path(own), source, trust) for file in files_of(name) if find(file) is None]


def _get_file(file: str, folder: Path, source: str | None, trust: bool) -> Path:
    from odmlib.errors import OdmError

    with tempfile.TemporaryDirectory(dir=folder) as scratch:
        fetched = _fetch(file, source, Path(scratch))
        try:
            found, wanted = checksum(fetched), known_checksums().get(file)
        except OdmError as error:
            fault = str(error).replace(str(fetched), fetched.name)
            raise SystemExit(f"{file}: the file cannot be read: {fault}") from None
        if found != wanted and not trust:
            reason = "has no known checksum" if wanted is None else "has another checksum than in data.tsv"
            raise SystemExit(f"{file}: the file {reason}; --trust keeps it")
        return Path(shutil.move(fetched, folder / fetched.name))


def _fetch(file: str, source: str | None, scratch: Path) -> Path:
    """A copy of the file under the first of its possible names that the source has."""
    if source is not None and "://" not in source:
        if not Path(source).is_dir():
            raise SystemExit(f"{source}: not a folder")
        for suffix in SUFFIXES:
            if (path := Path(source) / (file + suffix)).is_file():
                return Path(shutil.copy(path, scratch))
        raise SystemExit(f"{file}: not in {source}")
    kind = "multiclass" if file.removesuffix(".t") in MULTICLASS else "binary"
    base = f"{HOME}/{kind}" if source is None else source.rstrip("/")
    for suffix in SUFFIXES:
        target = scratch / (file + suffix)
        try:
            answer = urllib.request.urlopen(f"{base}/{file}{suffix}", timeout=60)
            with answer, target.open("wb") as out:
                shutil.copyfileobj(answer, out)
            return target
        except urllib.error.HTTPError as error:
            if error.code != 404:
                raise SystemExit(f"{base}/{file}{suffix}: {error}") from None
        except (OSError, http.client.HTTPException) as error:
            reason = getattr(error, "reason", error)
            raise SystemExit(f"{file}: {base}: {reason}; --from takes it from elsewhere") from None
    raise SystemExit(f"{file}: not at {base}")


def main(argv: list[str] | None = None) -> int:
    from benchmarks._common import OneLineParser

    parser = OneLineParser(
        prog="python -m benchmarks.data",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    commands = parser.add_subparsers(dest="command")
    fetch = commands.add_parser("get", help="fetch sets into $ODMLIB_DATA")
    fetch.add_argument("names", nargs="+")
    fetch.add_argument("--from", dest="source", metavar="URL_OR_FOLDER")
    fetch.add_argument("--trust", action="store_true", help="keep files without the known checksum")
    arguments = parser.parse_args(argv)
    if arguments.command is None:
        for name in sorted({*FILES, *known_checksums()}):
            print(f"{name:<36} {'here' if is_here(name) else '-':<6} {' '.join(files_of(name))}")
        return 0
    for name in arguments.names:
        new = get(name, arguments.source, arguments.trust)
        for path in map(find, files_of(name)):
            print(path if path in new else f"{path}: here already")
    return 0


if __name__ == "__main__":
    sys.exit(main())
