"""odm-train --spark MASTER: train where the tasks of a Spark cluster read the data."""

from __future__ import annotations

import argparse
import importlib.util
import logging
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import IO, TYPE_CHECKING, Any
from urllib.parse import urlsplit

from odmlib.cli.common import bad_values_as_usage
from odmlib.cli.parser import UsageError
from odmlib.errors import OdmError, ParameterError
from odmlib.machines.declarations.many_rows import AUTO
from odmlib.machines.declarations.sodm import linear_by_levels
from odmlib.options import TrainOptions
from odmlib.spark.messages import reason

if TYPE_CHECKING:
    from odmlib.model.model import Model

# what needs all rows in one place, or a second training run
NOT_AVAILABLE = {
    "v": "-v",
    "search": "-C",
    "loo": "--loo",
    "margins": "--margins",
    "assigned": "--assigned",
    "weights": "-W",
    "init": "--init",
    "max_vectors": "--max-vectors",
}

DEFAULT_PORTS = {"sc": 15002, "spark": 7077}  # of Spark Connect and of a standalone master


def check_spark_options(arguments: argparse.Namespace, options: TrainOptions) -> None:
    """UsageError for what a cluster cannot do."""
    if options.machine != "sodm":
        raise UsageError(f"--spark is for machine sodm (-s 6), found machine {options.machine}")
    for name, flag in NOT_AVAILABLE.items():
        if getattr(arguments, name):
            raise UsageError(f"{flag} is not available with --spark")
    if options.coverage:
        raise UsageError("--coverage 1 is not available with --spark")
    if options.probability:
        raise UsageError("-b 1 is not available with --spark")
    if arguments.training_set_file == "-":
        raise UsageError("--spark reads files where its tasks run, not standard input")
    if options.kernel == "linear" and options.partitions is not None and options.solver != "dsvrg":
        raise UsageError("--partitions has no meaning with kernel linear and --spark, which has its own")
    if linear_by_levels(options):
        raise UsageError("levels of a linear machine (--levels, ...) are not available with --spark")
    if options.stop_level == AUTO or options.pass_up == "all":
        raise UsageError("--stop-level auto and --pass-up all are not available with --spark")
    from odmlib.spark.limits import JOBS, check_options

    with bad_values_as_usage():
        check_options(options, arguments.engine or JOBS)


def train_on_spark(arguments: argparse.Namespace, options: TrainOptions, progress: Any) -> Model:
    """The model of the rows in the file or directory."""
    progress.show(lambda: f"starting Spark at {arguments.spark}")
    with session(arguments.spark) as spark, warnings.catch_warnings():
        # pip installs a newer pandas than Spark was tested with, and the user of a tool cannot help that
        warnings.filterwarnings("ignore", "PySpark does not yet fully support pandas", FutureWarning)
        from odmlib.spark.files import Grammar, file_blocks
        from odmlib.spark.limits import JOBS
        from odmlib.spark.training import train_blocks

        grammar = Grammar(arguments.features, arguments.zero_based)
        name = arguments.training_set_file
        blocks = file_blocks(spark, name, grammar)
        try:
            return train_blocks(blocks, options, files=True, engine=arguments.engine or JOBS)
        except ParameterError as error:
            told = error.shell  # faults of the text know their file
            raise OdmError(told if name in told else f"{name}: {told}") from None


@contextmanager
def session(master: str) -> Iterator[Any]:
    """A Spark session; what goes wrong inside is one line."""
    remote = master.startswith("sc://")
    require_spark(java=not remote)
    require_listener(master)
    from py4j.protocol import Py4JError
    from pyspark.errors import PySparkException
    from pyspark.sql import SparkSession

    disabled = logging.root.manager.disable
    logging.disable(logging.CRITICAL)  # py4j logs what its exceptions say, a Ctrl-C among them
    local = master.startswith("local")
    if local:
        os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    builder = SparkSession.builder.appName("odm-train")
    builder = builder.remote(master) if remote else builder.master(master)
    settings = {} if remote else {"spark.ui.showConsoleProgress": "false", "spark.log.level": "ERROR"}
    if local and "cluster" not in master:  # nobody else is to reach it
        settings |= {"spark.ui.enabled": "false", "spark.driver.bindAddress": "127.0.0.1"}
        settings |= {"spark.driver.host": "127.0.0.1"}
    for name, value in settings.items():
        builder = builder.config(name, value)
    java: list[subprocess.Popen] = []
    try:
        with tempfile.TemporaryFile() as talk:
            try:
                with java_talk_to(talk), processes_into(java):
                    spark = builder.getOrCreate()
                    if remote:  # until it is asked something it has not looked for the server
                        spark.range(1).count()
            except (Py4JError, PySparkException, OSError, RuntimeError) as error:
                talk.seek(0)
                told = talk.read().decode("utf-8", "replace")
                said = reason(told) or reason(str(error)) or str(error).partition("\n")[0]
                raise OdmError(f"--spark {master}: {said or type(error).__name__}") from None
        if threading.current_thread() is threading.main_thread():
            signal.signal(signal.SIGINT, signal.default_int_handler)  # Spark's own would ask Java first
        with warnings.catch_warnings():
            # pyspark's words about the version of pandas are none of the user's business
            warnings.filterwarnings("ignore", category=FutureWarning, module="pyspark")
            yield spark
        spark.stop()
    except (Py4JError, PySparkException) as error:
        if (interruption := interruption_behind(error)) is not None:
            raise interruption from None
        raise OdmError(f"--spark {master}: {reason(str(error)) or type(error).__name__}") from None
    finally:
        logging.disable(disabled)
        for process in java:  # it takes its temporary files along, while we do not wait
            process.terminate()


def interruption_behind(error: BaseException) -> BaseException | None:
    """The Ctrl-C that an error came after: cleaning up fails once the way to Java is cut."""
    behind = error.__context__
    while behind is not None and isinstance(behind, Exception):
        behind = behind.__context__
    return behind


@contextmanager
def processes_into(found: list[subprocess.Popen]) -> Iterator[None]:
    """Note what pyspark starts: Java that is interrupted while it starts would stay for ever."""
    from pyspark import java_gateway

    class Noted(subprocess.Popen):
        def __init__(self, *args: Any, **options: Any):
            super().__init__(*args, **options)
            found.append(self)

    usual = java_gateway.Popen
    vars(java_gateway)["Popen"] = Noted
    try:
        yield
    finally:
        vars(java_gateway)["Popen"] = usual


def require_spark(java: bool = True) -> None:
    """OdmError where pyspark, Java (which Spark Connect does without) or what Connect needs is missing."""
    try:
        import pyspark  # noqa: F401
    except ImportError:
        raise OdmError("--spark needs pyspark, which is not installed: pip install 'odmlib[spark]'") from None
    if not java:
        if importlib.util.find_spec("grpc") is None:
            raise OdmError("--spark sc:// needs grpcio, which is not installed: pip install 'odmlib[spark]'")
        return
    home = os.environ.get("JAVA_HOME")
    program = os.path.join(home, "bin", "java") if home else "java"
    if shutil.which(program) is None:
        where = f"JAVA_HOME is {home}" if home else "it is not on the PATH, and JAVA_HOME is not set"
        raise OdmError(f"--spark needs Java (17 or later for pyspark 4): {where}")


def require_listener(master: str) -> None:
    """OdmError where nobody listens at any address of the cluster: Spark itself would try for minutes."""
    scheme, _, places = master.partition("://")
    if scheme not in DEFAULT_PORTS:
        return
    refusals = []
    for place in places.partition("/")[0].split(","):
        try:
            parts = urlsplit(f"//{place}")
            where = parts.hostname or "", parts.port or DEFAULT_PORTS[scheme]
            socket.create_connection(where, timeout=5).close()
        except ConnectionRefusedError as error:
            refusals.append(f"{where[0]}:{where[1]}: {error.strerror}")
            continue
        except (OSError, ValueError):  # Spark may know a way, by a proxy for one, or says what is wrong
            pass
        return
    raise OdmError(f"--spark {master}: nobody listens there ({', '.join(refusals)})")


@contextmanager
def java_talk_to(talk: IO[bytes]) -> Iterator[None]:
    """What Java says at its start, and later, goes to this file; errors come as exceptions too."""
    try:
        ours = os.dup(2)
    except OSError:  # no stderr at all
        yield
        return
    try:
        os.dup2(talk.fileno(), 2)
        yield
    finally:
        os.dup2(ours, 2)
        os.close(ours)
