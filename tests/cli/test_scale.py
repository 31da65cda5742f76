"""odm-scale: against svm-scale, in pipes, under signals, and when it is used wrongly."""

from __future__ import annotations

import gzip
import io
import lzma
import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from odmlib.cli.scale import main
from odmlib.data.dataset import Dataset
from odmlib.data.scaling import BLOCK_ENTRIES, Scaling
from odmlib.data.writing import write_data

ROOT = Path(__file__).parent.parent.parent
GOLDEN = Path(__file__).parent / "golden"
COMMAND = [sys.executable, "-m", "odmlib.cli.scale"]

TOY = b"1 1:1 2:5 3:0.1\n-1 1:2 2:5\n3 1:0.3 2:5 3:-7\n"
TOY_SCALED = "1 1:-0.17647058823529416 3:1\n-1 1:1 3:0.971830985915493\n3 1:-1 3:-1\n"


@pytest.fixture
def run(capsys):
    """Run in this process; gives exit code, stdout and stderr."""

    def run_main(*argv):
        code = main([str(word) for word in argv])
        return (code, *capsys.readouterr())

    return run_main


@pytest.fixture
def toy(tmp_path):
    path = tmp_path / "toy.txt"
    path.write_bytes(TOY)
    return path


@pytest.fixture
def stdin(monkeypatch):
    def feed(content):
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(content)))

    return feed


def table(text):
    """Rows of (label, {index: value}) of a data file."""
    rows = []
    for line in text.splitlines():
        label, *items = line.split()
        rows.append((float(label), {int(j): float(v) for j, v in (item.split(":") for item in items)}))
    return rows


def exactly_scaled(text, scaling):
    """svm-scale's computation with Python's floats, from the ranges of a Scaling."""

    def image(value, low, high, lower, upper):
        if value == low:
            return lower
        if value == high:
            return upper
        return lower + (upper - lower) * (value - low) / (high - low)

    rows = []
    for label, items in table(text):
        if scaling.target is not None:
            t = scaling.target
            label = image(label, t.minimum, t.maximum, t.lower, t.upper)
        ranges = zip(
            scaling.columns.tolist(), scaling.minimum.tolist(), scaling.maximum.tolist(), strict=True
        )
        images = {
            j + 1: image(items.get(j + 1, 0.0), low, high, scaling.lower, scaling.upper)
            for j, low, high in ranges
        }
        rows.append((label, {j: value for j, value in images.items() if value != 0}))
    return rows


def rounded(rows):
    """As svm-scale prints: six digits, labels in full."""
    return [(label, {j: float(f"{value:g}") for j, value in items.items()}) for label, items in rows]


# ------------------------------------------------------------------------------------- agreement


@pytest.mark.parametrize("kind", ["default", "target"])
@pytest.mark.parametrize("part", ["train", "test"])
def test_ranges_of_svm_scale_give_its_output(run, kind, part):
    ranges = GOLDEN / f"{kind}.range"
    code, out, _ = run("-q", "-r", ranges, GOLDEN / f"{part}.txt")
    assert code == 0
    assert rounded(table(out)) == table((GOLDEN / f"{kind}.{part}.out").read_text())
    assert table(out) == exactly_scaled((GOLDEN / f"{part}.txt").read_text(), Scaling.read(ranges))


@pytest.mark.parametrize(
    ("kind", "options"), [("default", []), ("target", ["-l", "0", "-u", "2.5", "-y", "-1", "4"])]
)
def test_making_ranges_gives_those_of_svm_scale(run, kind, options, tmp_path):
    saved = tmp_path / "saved"
    code, out, _ = run("-q", *options, "-s", saved, GOLDEN / "train.txt")
    assert code == 0
    assert rounded(table(out)) == table((GOLDEN / f"{kind}.train.out").read_text())

    def numbers(path):
        lines = path.read_text().splitlines()
        return [[word if word in "xy" else float(word) for word in line.split()] for line in lines]

    assert numbers(saved) == numbers(GOLDEN / f"{kind}.range")
    assert run("-q", "-r", saved, GOLDEN / "train.txt")[1] == out


@pytest.mark.parametrize("name", ["wdbc", "iris", "wine", "digits", "rings"])
@pytest.mark.parametrize("options", [[], ["-l", "0"], ["-l", "-0.25", "-u", "3", "-y", "-1", "1"]])
def test_either_program_reads_the_ranges_of_the_other(run, name, options, tmp_path):
    if shutil.which("svm-scale") is None:
        pytest.skip("svm-scale is not installed (Debian: libsvm-tools)")
    data, ours, theirs = ROOT / "data" / f"{name}.txt", tmp_path / "ours", tmp_path / "theirs"

    def svm_scale(*words):
        return subprocess.run(["svm-scale", *words, data], check=True, capture_output=True, text=True).stdout

    their_output = svm_scale(*options, "-s", theirs)
    _, our_output, _ = run("-q", *options, "-s", ours, data)
    assert rounded(table(our_output)) == table(their_output)
    assert svm_scale("-r", ours) == their_output
    assert run("-q", "-r", theirs, data)[1] == our_output
    assert table(our_output) == exactly_scaled(data.read_text(), Scaling.read(theirs))


def test_toy(run, toy):
    assert run(toy) == (0, TOY_SCALED, "")


def test_long_and_glued_forms(run, toy):
    expected = run("-l", "0", "-u", "0.5", "-y", "-1", "1", toy)
    assert expected[0] == 0
    assert run("--lower=0", "--upper", "0.5", "--target", "-1", "1", toy) == expected
    assert run("-l0", "-u.5", "-y-1", "1", toy) == expected
    assert run(toy, "-l", "0", "-j", "1", "-u", "5e-1", "-y", "-1e0", "1") == expected


def test_negative_exponents_are_values(run, toy):
    code, out, _ = run("-l", "-1e-3", "-u", "-.5e-3", toy)
    assert code == 0
    assert {value for _, items in table(out) for value in items.values()} >= {-1e-3, -5e-4}


# ------------------------------------------------------------------------------------- input and output


@pytest.mark.parametrize("pack", [bytes, gzip.compress, lzma.compress])
def test_stdin_plain_and_packed(run, stdin, pack):
    stdin(pack(TOY))
    assert run("-") == (0, TOY_SCALED, "")


def test_other_line_ends(run, stdin):
    for content in (TOY.replace(b"\n", b"\r\n"), TOY.rstrip(), b"# a comment\n\n" + TOY):
        stdin(content)
        assert run("-") == (0, TOY_SCALED, "")


def test_ranges_from_stdin(run, stdin, toy, tmp_path):
    run("-s", tmp_path / "r", toy)
    stdin((tmp_path / "r").read_bytes())
    assert run("-r", "-", toy) == (0, TOY_SCALED, "")


def test_zero_based(run, tmp_path):
    data, ranges = tmp_path / "zero.txt", tmp_path / "r"
    data.write_text("1 0:1 1:4\n2 0:3 1:8\n")
    assert run("--zero-based", "-s", ranges, data) == (0, "1 0:-1 1:-1\n2 0:1 1:1\n", "")
    assert ranges.read_text() == "x\n-1 1\n0 1 3\n1 4 8\n"
    assert run("--zero-based", "-r", ranges, data)[1] == "1 0:-1 1:-1\n2 0:1 1:1\n"
    code, out, err = run("-r", ranges, data)
    assert (code, out) == (1, "")
    assert err.startswith(f"odm-scale: {ranges}:3:1: expected an index of 1 or more, found '0'")


def test_blocks_do_not_show(run, tmp_path):
    values = np.random.default_rng(0).integers(1, 9, (BLOCK_ENTRIES // 500 + 9, 500)).astype(float)
    dataset, labels = Dataset.from_any(values), np.ones(len(values))
    write_data(tmp_path / "large", dataset, labels)
    scaling = Scaling.fit(dataset)
    assert len(list(scaling.blocks(dataset))) > 1
    write_data(tmp_path / "expected", scaling.apply(dataset), labels)
    assert run(tmp_path / "large") == (0, (tmp_path / "expected").read_text(), "")


def test_ranges_are_there_before_the_output(toy, tmp_path):
    reading, writing = os.pipe()
    os.close(reading)  # nobody takes the output
    done = subprocess.run(
        [*COMMAND, "-s", tmp_path / "r", toy], cwd=ROOT, stdout=writing, stderr=subprocess.PIPE
    )
    os.close(writing)
    assert (done.returncode, done.stderr) == (0, b"")
    assert (tmp_path / "r").read_text() == "x\n-1 1\n1 0.3 2\n3 -7 0.1\n"


def test_old_ranges_survive_bad_data(run, tmp_path):
    (tmp_path / "r").write_text("old")
    (tmp_path / "bad.txt").write_text("1 1:x\n")
    assert run("-s", tmp_path / "r", tmp_path / "bad.txt")[0] == 1
    assert (tmp_path / "r").read_text() == "old"


# ------------------------------------------------------------------------------------- warnings


def test_unknown_features_get_one_warning(run):
    code, _, err = run("-r", GOLDEN / "default.range", GOLDEN / "test.txt")
    assert code == 0
    assert err.splitlines() == [
        "odm-scale: warning: left out what is not in the range file (absent or constant in the data it was "
        "made from): 2 features, the first is 9"
    ]


def test_growth_gets_a_warning(run, tmp_path):
    sparse = tmp_path / "sparse.txt"
    sparse.write_text("1 1:1\n1 2:1\n1 3:1\n1 4:1\n")
    code, out, err = run(sparse)
    assert (code, len(table(out)[0][1])) == (0, 4)
    assert err == (
        "odm-scale: warning: scaling turns 12 zeros into other numbers (the data hold 4 values); "
        "if most features are 0 or above, ranges made with -l 0 keep zeros\n"
    )
    assert run("-q", sparse)[2] == ""
    assert run("-l", "0", sparse) == (0, sparse.read_text(), "")


def test_options_against_the_range_file_get_a_warning(run, toy, tmp_path):
    ranges = tmp_path / "r"
    run("-l", "0", "-s", ranges, toy)
    assert run("-l", "0", "-u", "1", "-q", "-r", ranges, toy)[2] == ""
    code, out, err = run("-l", "-1", "-y", "0", "1", "-r", ranges, toy)
    assert (code, out) == run("-q", "-r", ranges, toy)[:2]
    assert [line for line in err.splitlines() if "ignored" in line] == [
        f"odm-scale: warning: -l -1 is ignored: the range file {ranges} says 0",
        f"odm-scale: warning: -y is ignored: the range file {ranges} does not scale labels",
    ]
    run("-y", "0", "1", "-s", ranges, toy)
    assert "-y is ignored" not in run("-y", "0", "1", "-r", ranges, toy)[2]
    assert f"-y is ignored: the range file {ranges} says 0 1" in run("-y", "0", "2", "-r", ranges, toy)[2]


# ------------------------------------------------------------------------------------- mistakes


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ("-l", "-l needs a value, found none"),
        ("-l x", "-l/--lower: expected a finite number, found 'x'"),
        ("-l nan", "-l/--lower: expected a finite number, found 'nan'"),
        ("-l 1 -u 0", "-l and -u: the lower end must be below the upper end, found 1 and 0"),
        ("-l 1", "-l and -u: the lower end must be below the upper end, found 1 and 1"),
        ("-l -1e308 -u 1e308", "-l and -u: the ends are too far apart"),
        ("-y 1", "-y needs 2 values, found one"),
        ("-y 1 1", "-y: the lower end must be below the upper end"),
        ("-y 1 -q", "-y needs 2 values, found one"),
        ("-z", "unknown option '-z'"),
        ("--lowr 0", "unknown option '--lowr'; did you mean --lower?"),
        ("-s a -r b", "-s and -r cannot be used together"),
        ("-s -", "-s needs a file"),
        ("-j 0", "-j/--threads: expected a whole number above 0"),
        ("extra", "unrecognized arguments"),
        ("–l 0", "'–l' does not start with a hyphen"),
    ],
)
def test_bad_usage(run, toy, options, message):
    code, out, err = run(toy, *options.split())
    assert (code, out) == (2, "")
    assert err.startswith(f"odm-scale: {message}")
    assert err.endswith("(see odm-scale --help)\n")
    assert err.count("\n") == 1


def test_no_file_named(run):
    assert run()[:2] == (2, "")
    assert run("-r", "-", "-")[::2] == (
        2,
        "odm-scale: ranges and data cannot both come from stdin (see odm-scale --help)\n",
    )


def test_data_are_not_overwritten(run, toy, tmp_path):
    (tmp_path / "link").symlink_to(toy)
    for name in (toy, tmp_path / "link"):
        code, out, err = run("-s", name, toy)
        assert (code, out) == (2, "")
        assert "would overwrite the data" in err
    assert toy.read_bytes() == TOY


def test_help_and_version(run):
    code, out, err = run("--help")
    assert (code, err) == (0, "")
    assert out.startswith("usage: odm-scale [options] data_file\n")
    assert run("-h") == (code, out, err)
    assert run("--version")[1].startswith("odm-scale ")


@pytest.mark.parametrize(
    ("content", "place"),
    [(b"1 1:1\n1 1:x\n", ":2:5: "), (b"1 1:nan\n", ":1:5: "), (b"", ": "), (b"1 2:1 1:1\n", ":1:7: ")],
)
def test_bad_data(run, tmp_path, content, place):
    path = tmp_path / "bad.txt"
    path.write_bytes(content)
    code, out, err = run("-s", tmp_path / "r", path)
    assert (code, out) == (1, "")
    assert err.startswith(f"odm-scale: {path}{place}")
    assert err.count("\n") == 1
    assert os.listdir(tmp_path) == ["bad.txt"]


@pytest.mark.parametrize(
    "content", ["x\n1 -1\n", "x\n-1 1\n1 2 1\n", "1 1:1\n", "", "x\n-1 1\n1 0 1\n1 0 1\n"]
)
def test_bad_ranges(run, toy, tmp_path, content):
    path = tmp_path / "r\nange"  # a line break in a name stays out of the message
    path.write_text(content)
    code, out, err = run("-r", path, toy)
    assert (code, out) == (1, "")
    assert err.startswith(f"odm-scale: {tmp_path}/r\\nange:")
    assert err.count("\n") == 1


def test_missing_and_unwritable_files(run, toy, tmp_path):
    gone = tmp_path / "gone.txt"
    assert run(gone) == (1, "", f"odm-scale: {gone}: No such file or directory\n")
    assert run("-r", gone, toy) == (1, "", f"odm-scale: {gone}: No such file or directory\n")
    assert run(tmp_path) == (1, "", f"odm-scale: {tmp_path}: Is a directory\n")
    nowhere = tmp_path / "no" / "r"
    assert run("-s", nowhere, toy) == (1, "", f"odm-scale: {nowhere}: No such file or directory\n")
    under_a_file = toy / "r"
    assert run("-s", under_a_file, toy) == (1, "", f"odm-scale: {under_a_file}: Not a directory\n")


def test_unwritable_directory(run, toy, tmp_path):
    if os.geteuid() == 0:
        pytest.skip("root may write everywhere")
    locked = tmp_path / "locked"
    locked.mkdir(mode=0o500)
    assert run("-s", locked / "r", toy) == (1, "", f"odm-scale: {locked / 'r'}: Permission denied\n")


# ------------------------------------------------------------------------------------- processes


@pytest.fixture(scope="module")
def long_file(tmp_path_factory):
    """A few megabytes once scaled: more than any pipe holds."""
    path = tmp_path_factory.mktemp("long") / "long.txt"
    path.write_text("".join(f"{i % 2} 1:{i} 2:{i * i} 3:{i % 7}\n" for i in range(1, 60_001)))
    return path


def start(*argv, **options):
    # a background job of a shell has Ctrl-C switched off; these must see it
    return subprocess.Popen(
        [*COMMAND, *map(str, argv)],
        cwd=ROOT,
        stderr=subprocess.PIPE,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler),
        **options,
    )


def test_launcher(toy):
    launcher = ROOT / "bin" / "odm-scale"
    done = subprocess.run([sys.executable, launcher, toy], capture_output=True, text=True)
    assert (done.returncode, done.stdout, done.stderr) == (0, TOY_SCALED, "")


def test_pipe_in_and_out(long_file):
    with open(long_file, "rb") as source:
        done = subprocess.run([*COMMAND, "-"], cwd=ROOT, stdin=source, capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.count("\n") == 60_000
    assert done.stdout.startswith("1 1:-1 2:-1 3:-0.6666666666666667\n")
    assert done.stdout.splitlines()[-1] == "0 1:1 2:1"  # the middle of feature 3 is 0


def test_reader_that_leaves_is_no_error(long_file):
    process = start(long_file, stdout=subprocess.PIPE)
    assert process.stdout.readline().startswith(b"1 1:-1 2:-1 ")
    process.stdout.close()
    assert process.stderr.read() == b""
    assert process.wait(timeout=300) == 0
    process.stderr.close()


def test_full_disk(long_file):
    if not os.path.exists("/dev/full"):
        pytest.skip("no /dev/full on this system")
    with open("/dev/full", "wb") as full:
        done = subprocess.run([*COMMAND, long_file], cwd=ROOT, stdout=full, stderr=subprocess.PIPE, text=True)
    assert (done.returncode, done.stderr) == (1, "odm-scale: <stdout>: No space left on device\n")


@pytest.mark.parametrize(
    ("number", "code", "word"), [(signal.SIGINT, 130, b"interrupted"), (signal.SIGTERM, 143, b"terminated")]
)
def test_signals_while_reading_leave_nothing_behind(tmp_path, number, code, word):
    process = start("-s", tmp_path / "r", "-", stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    process.stdin.write(
        b"1 1:1 2:2\n" * 100_000
    )  # more than a pipe holds: once it is taken, reading has begun
    process.stdin.flush()
    process.send_signal(number)
    assert process.wait(timeout=300) == code
    assert process.stderr.read() == b"odm-scale: " + word + b"\n"
    assert process.stdout.read() == b""
    assert os.listdir(tmp_path) == []
    close(process)


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_signals_while_writing(tmp_path, long_file, number, code):
    process = start("-s", tmp_path / "r", long_file, stdout=subprocess.PIPE)
    assert process.stdout.read(1) == b"1"  # now it waits for us to take more
    process.send_signal(number)
    assert process.wait(timeout=300) == code
    assert process.stderr.read().count(b"\n") == 1
    assert os.listdir(tmp_path) == ["r"]  # complete: it is written before the output
    assert Scaling.read(tmp_path / "r").maximum.tolist() == [60_000, 3.6e9, 6]
    close(process)


def close(process):
    for stream in (process.stdin, process.stdout, process.stderr):
        if stream is not None:
            stream.close()
