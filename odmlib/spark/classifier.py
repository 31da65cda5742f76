"""ODMClassifier and its model for pyspark.ml, with the parameter names and columns of LinearSVC.

Differences to LinearSVC, which minimises  mean loss + regParam/2 |w|^2 :  the loss is ODM's band
(machines/odm.py) and the objective is written with C, the weight of one row's loss. regParam may be given
instead: lambda = C x rows = 1 / regParam. The intercept is the weight of a constant feature `bias`, and is
regularised as the others are. Features are not standardised: put a StandardScaler before it.

`kernel` other than linear: machines over landmarks (`approx="nystrom"`), or by levels (levels.py).
"""

from __future__ import annotations

import logging
import os
import warnings
from collections.abc import Callable
from functools import partial
from inspect import Parameter, Signature
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from pyspark.ml import util
from pyspark.ml.classification import ClassificationModel, Classifier, LinearSVCModel
from pyspark.ml.functions import array_to_vector
from pyspark.ml.linalg import DenseMatrix, DenseVector, Vector, Vectors, VectorUDT
from pyspark.ml.param import Param, Params, TypeConverters
from pyspark.ml.param import shared as of_spark
from pyspark.sql import functions as F
from pyspark.sql.types import ArrayType, BooleanType, DataType, NumericType
from pyspark.sql.utils import is_remote

from odmlib.errors import ConvergenceWarning, ModelFormatError, ParameterError
from odmlib.machines.building import convergence_message
from odmlib.model.functions import LinearFunction
from odmlib.model.model import Model
from odmlib.model.text_format import load_model
from odmlib.options import TrainOptions
from odmlib.solvers.control import CONVERGED, EARLY, Progress
from odmlib.solvers.distributed.blocks import TUNING
from odmlib.solvers.trace import Trace
from odmlib.spark.blocks import BLOCK_VALUES, blocks_of_batches
from odmlib.spark.engine import Spread
from odmlib.spark.limits import JOBS, PARTITIONERS, check_options
from odmlib.spark.scoring import with_scores, wrong_width
from odmlib.spark.training import train_blocks
from odmlib.spark.vectors import vector_struct

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

LOG = logging.getLogger("odmlib.spark")

NUMBER, WHOLE, NAME = TypeConverters.toFloat, TypeConverters.toInt, TypeConverters.toString


def _number_or_name(value: Any) -> float | str:
    return value if isinstance(value, str) else NUMBER(value)


# our own parameters: converter, default (None: not set) and meaning
OWN_PARAMS: dict[str, tuple[Callable[[Any], Any], Any, str]] = {
    "C": (NUMBER, 1.0, "weight of one row's loss; or give regParam"),
    "nu": (NUMBER, 0.5, "weight of deviations above the band relative to below, at least 0"),
    "theta": (NUMBER, 0.2, "half-width of the loss-free band, 0 <= theta < 1"),
    "bias": (NUMBER, 1.0, "value of the constant feature that carries the intercept (fitIntercept)"),
    "threshold": (NUMBER, 0.0, "label 1 is predicted where the decision value is larger; any number"),
    "kernel": (NAME, "linear", "kernel: linear, rbf or poly"),
    "gamma": (_number_or_name, "scale", "gamma of rbf and poly: a number, 'scale' or 'auto'"),
    "degree": (WHOLE, 3, "degree of poly"),
    "coef0": (NUMBER, 0.0, "coef0 of poly"),
    "approx": (NAME, None, "nystrom: a machine over `rank` landmarks only"),
    "rank": (WHOLE, None, "landmarks of nystrom"),
    "partition": (
        NAME,
        PARTITIONERS[0],
        "kernels without approx, how rows go into partitions: " + ", ".join(PARTITIONERS),
    ),
    "partitions": (WHOLE, None, "partitions at the first level"),
    "levels": (WHOLE, None, "merges from the first level to the whole problem"),
    "stopLevel": (WHOLE, None, "end at this level with the average of its machines"),
    "landmarks": (WHOLE, None, "rows that strata form around"),
    "standardization": (
        TypeConverters.toBoolean,
        False,
        "divide the features by their standard deviations before training (linear machines)",
    ),
    "solver": (
        NAME,
        "auto",
        "linear machines: newton, lbfgs, or with engine barrier dsvrg; auto: newton up to 1000 columns",
    ),
    "engine": (
        NAME,
        JOBS,
        "jobs: a job for every round; barrier: one barrier stage, whose rounds take milliseconds "
        "(linear machines and nystrom)",
    ),
    "validationTol": (
        NUMBER,
        0.01,
        "training ends once a round lowers the mean loss of the rows of validationIndicatorCol by less than "
        "this part of it, at least 0",
    ),
    "maxBlockSizeInMB": (NUMBER, 0.0, "of a block of rows; 0: about 200"),
    "cacheMB": (NUMBER, 200.0, "cache for kernel rows of one task, in MB"),
}
# our defaults of parameters that LinearSVC has as well
SHARED_DEFAULTS = {
    "maxIter": TUNING.max_rounds,
    "regParam": None,
    "tol": 1e-3,
    "fitIntercept": True,
    "aggregationDepth": 2,
    "seed": 0,
    "weightCol": None,
    "validationIndicatorCol": None,
}
DEFAULTS = SHARED_DEFAULTS | {name: default for name, (_, default, _) in OWN_PARAMS.items()}
COLUMNS = ("features", "label", "prediction", "rawPrediction")  # the names, and with Col the parameters

# parameters that say how a kernel machine is trained, by the names that odmlib.train has for them
OPTION_OF = {"stopLevel": "stop_level", "cacheMB": "cache_mb"}
KERNEL_PARAMS = (
    "gamma", "degree", "coef0", "approx", "rank", "partition", "partitions", "levels", "stopLevel",
    "landmarks", "cacheMB",
)  # fmt: skip

BYTES_PER_VALUE = 12  # of a block
MAX_BLOCK_MB = 2000  # what a task gets at once must stay below 2 GB

MODEL_FOLDER = "odmlib-model"  # inside the directory of a saved model: our model file as Spark's text


class ODMParams(
    of_spark.HasMaxIter,
    of_spark.HasRegParam,
    of_spark.HasTol,
    of_spark.HasFitIntercept,
    of_spark.HasSeed,
    of_spark.HasWeightCol,
    of_spark.HasAggregationDepth,
    of_spark.HasThreshold,
    of_spark.HasValidationIndicatorCol,
):
    """Parameters that the estimator and its model share: those of OWN_PARAMS come with a method get..."""

    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        self._setDefault(**{name: value for name, value in DEFAULTS.items() if value is not None})


def _getter(name: str) -> Callable[[Any], Any]:
    def get(self: Params) -> Any:
        return self.getOrDefault(name)

    get.__doc__ = f"The value of {name}."
    return get


def _setter(name: str) -> Callable[[Any, Any], Any]:
    def set_(self: Params, value: Any) -> Any:
        return self._set(**{name: value})

    set_.__doc__ = f"Set {name}: {getattr(ODMParams, name).doc}"
    return set_


for _name, (_converter, _, _meaning) in OWN_PARAMS.items():
    setattr(ODMParams, _name, Param(Params._dummy(), _name, _meaning, _converter))
    setattr(ODMParams, f"get{_name[0].upper()}{_name[1:]}", _getter(_name))


class ODMClassifier(Classifier, ODMParams, util.DefaultParamsWritable, util.DefaultParamsReadable):
    """Optimal margin distribution machine on a DataFrame, trained where its partitions are.

    Columns as in LinearSVC: featuresCol (vectors), labelCol (any two numbers or more), weightCol; the model
    adds rawPredictionCol and predictionCol. Stops at the relative duality gap `tol`, computed over all rows,
    or after `maxIter` rounds: steps of Newton's method, of L-BFGS for more than 1000 columns.
    """

    def __init__(self, **given: Any):
        super().__init__()
        self._initial: ODMClassificationModel | None = None
        self.setParams(**given)

    def setInitialModel(self, model: ODMClassificationModel | None) -> ODMClassifier:
        """Begin training from this linear model; it is not saved with the estimator."""
        self._initial = model
        return self

    def getInitialModel(self) -> ODMClassificationModel | None:
        """The model that training begins from."""
        return self._initial

    def setParams(self, **given: Any) -> ODMClassifier:
        """Set parameters by their names."""
        if "initialModel" in given:
            self.setInitialModel(given.pop("initialModel"))
        for name in given:
            if not self.hasParam(name):
                raise TypeError(f"ODMClassifier has no parameter {name!r}")
        return self._set(**given)

    def write(self) -> ParamsWriter:
        """A writer; `save(path)` is short for `write().save(path)`."""
        return ParamsWriter(self)

    def train_options(self) -> TrainOptions:
        """The parameters as odmlib's own options; ParameterError where one is out of range."""
        value, given = self.getOrDefault, self.isSet
        weight: dict[str, Any] = {"C": value("C")}
        if given("regParam"):
            if given("C"):
                raise ParameterError("C and regParam = 1/(C x rows) say the same thing; give one of them")
            if not value("regParam") > 0:
                raise ParameterError(f"regParam must be > 0, found {value('regParam'):g}")
            weight = {"lambda_": 1 / value("regParam")}
        if not value("bias") > 0:
            raise ParameterError(f"bias must be > 0, found {value('bias'):g}; fitIntercept=False for none")
        if value("aggregationDepth") < 1:
            raise ParameterError(f"aggregationDepth must be at least 1, found {value('aggregationDepth')}")
        bias: float | None = value("bias") if value("fitIntercept") else -1.0
        if not (given("bias") or given("fitIntercept")):
            bias = None  # as the kernel has it: rbf none
        linear = value("kernel") == "linear"
        options = TrainOptions(
            machine="sodm",
            max_iter=value("maxIter") if linear or given("maxIter") else None,
            bias=bias,
            **weight,
            **{name: value(name) for name in ("kernel", "solver", "nu", "theta", "tol", "seed")},
            **{OPTION_OF.get(name, name): value(name) for name in KERNEL_PARAMS if given(name)},
        )
        if value("standardization") and not linear:
            raise ParameterError(
                "standardization is for kernel linear; put a StandardScaler before a kernel machine"
            )
        size = value("maxBlockSizeInMB")
        if not 0 <= size <= MAX_BLOCK_MB:
            raise ParameterError(f"maxBlockSizeInMB must be from 0 (auto) to {MAX_BLOCK_MB}, found {size:g}")
        if self._initial is not None and not linear:
            raise ParameterError("initialModel is for kernel linear")
        for name in ("partitions", "gamma", "degree", "coef0"):
            if linear and given(name) and (name, value("solver")) != ("partitions", "dsvrg"):
                raise ParameterError(f"{name} has no meaning with kernel linear")
        if value("validationTol") < 0:
            raise ParameterError(f"validationTol must be at least 0, found {value('validationTol'):g}")
        by_levels = not linear and options.approx is None
        if self._validation_column() and (by_levels or value("solver") == "dsvrg"):
            what = "kernels by levels" if by_levels else "solver dsvrg"
            raise ParameterError(f"validationIndicatorCol is not available for {what}")
        check_options(options, value("engine"))
        return options

    def _fit(self, dataset: DataFrame) -> ODMClassificationModel:
        options = self.train_options()
        records = self._records(dataset)
        block_values = int(self.getOrDefault("maxBlockSizeInMB") * 2**20 / BYTES_PER_VALUE) or BLOCK_VALUES
        blocks = Spread(records, partial(blocks_of_batches, block_values=block_values))
        standardized = self.getOrDefault("standardization")
        init = None if self._initial is None else self._initial._odm
        trace = Trace(also=_log_progress)
        model = train_blocks(
            blocks,
            options.but(callback=trace),
            self.getAggregationDepth(),
            False,
            standardized,
            init,
            self.getOrDefault("engine"),
            self.getOrDefault("validationTol"),
        )
        model.report["trace"] = trace.points()
        ended = (CONVERGED, EARLY) if self._validation_column() else (CONVERGED,)
        if model.report["status"] not in ended:
            message = convergence_message(model.report, options.tol).replace("-c", "C")
            warnings.warn(message, ConvergenceWarning, stacklevel=3)
        return self._copyValues(ODMClassificationModel(model))

    def _records(self, dataset: DataFrame) -> DataFrame:
        """(vector, label, weight) of every row, and where it is asked for whether it is to validate with."""
        weight_column = self.getOrDefault(self.weightCol) if self.isDefined(self.weightCol) else None
        check_column(dataset, self.getFeaturesCol(), "featuresCol", *FEATURES)
        check_column(dataset, self.getLabelCol(), "labelCol", *NUMBERS)
        weight = F.lit(1.0)
        if weight_column:
            check_column(dataset, weight_column, "weightCol", *NUMBERS)
            weight = F.col(weight_column).cast("double")
        features, label = vector_struct(dataset, self.getFeaturesCol()), F.col(self.getLabelCol())
        columns = [features.alias("features"), label.cast("double").alias("label"), weight.alias("weight")]
        if held := self._validation_column():
            check_column(dataset, held, "validationIndicatorCol", *TRUTHS)
            columns.append(F.col(held).alias("held"))
        return dataset.select(*columns)

    def _validation_column(self) -> str | None:
        return (
            self.getOrDefault(self.validationIndicatorCol)
            if self.isDefined("validationIndicatorCol")
            else None
        )


for _name in DEFAULTS:
    setattr(ODMClassifier, f"set{_name[0].upper()}{_name[1:]}", _setter(_name))
ODMClassifier.__init__.__signature__ = Signature(  # type: ignore[attr-defined]
    [Parameter("self", Parameter.POSITIONAL_OR_KEYWORD)]
    + [
        Parameter(name, Parameter.KEYWORD_ONLY, default=default)
        for name, default in (
            {f"{column}Col": column for column in COLUMNS} | DEFAULTS | {"initialModel": None}
        ).items()
    ]
)


def _log_progress(progress: Progress) -> None:
    task = f"class {progress.task} of {progress.tasks}, " if progress.tasks > 1 else ""
    where = progress.stage or f"round {progress.iteration}"
    LOG.info("%s%s: objective %.6g, gap %.2g", task, where, progress.primal, progress.gap)


def _is_features(kind: DataType) -> bool:
    numbers = kind.elementType if isinstance(kind, ArrayType) else kind
    return isinstance(kind, VectorUDT) or isinstance(numbers, NumericType)


def _is_number(kind: DataType) -> bool:
    return isinstance(kind, NumericType)


def _is_truth(kind: DataType) -> bool:
    return isinstance(kind, BooleanType)


FEATURES = _is_features, "vectors, arrays of numbers or numbers"
NUMBERS = _is_number, "numbers"
TRUTHS = _is_truth, "true and false"


def check_column(
    dataset: DataFrame, name: str, parameter: str, fits: Callable[[DataType], bool], expected: str
) -> None:
    if name not in dataset.columns:
        known = ", ".join(dataset.columns)
        raise ParameterError(f"the data have no column '{name}' ({parameter}); they have {known}")
    found = dataset.schema[name].dataType
    if not fits(found):
        raise ParameterError(
            f"column '{name}' ({parameter}) must hold {expected}, found {found.simpleString()}"
        )


class TrainingSummary(NamedTuple):
    """The objective and the relative duality gap after each round (some hundred of them at most).

    With more than two classes the rounds of one machine come after those of the other.
    """

    objectiveHistory: list[float]
    gapHistory: list[float]
    totalIterations: int
    validationHistory: list[float]  #: mean loss of the rows of validationIndicatorCol, where there are any


class ODMClassificationModel(
    ClassificationModel, ODMParams, util.DefaultParamsWritable, util.DefaultParamsReadable
):
    """What ODMClassifier returns; `odm` is the same machine as an odmlib.Model."""

    def __init__(self, odm: Model | None = None):
        """Without a model: a place to load one into."""
        super().__init__()
        self.odm = odm

    @property
    def numFeatures(self) -> int:
        """Width of the training rows."""
        return self._odm.n_features

    @property
    def numClasses(self) -> int:
        """How many labels there are."""
        return self._odm.n_classes

    @property
    def coefficients(self) -> DenseVector:
        """The weight of every feature; of linear machines only."""
        self._require_two("coefficients", "coefficientMatrix")
        return Vectors.dense(self._weights[0])

    @property
    def coefficientMatrix(self) -> DenseMatrix:
        """A row of weights for two classes, else one for every class; of linear machines only."""
        weights = self._weights
        n_rows, n_columns = weights.shape
        return DenseMatrix(n_rows, n_columns, weights.reshape(-1), True)

    @property
    def interceptVector(self) -> DenseVector:
        """The intercept that belongs to every row of coefficientMatrix."""
        function = self._linear_function
        return Vectors.dense(function.bias * function.bias_weights)

    @property
    def _weights(self) -> np.ndarray:
        function = self._linear_function
        weights = np.zeros((function.n_outputs, self.numFeatures))
        weights[:, function.columns] = function.weights.T
        return weights

    def _require_two(self, name: str, other: str) -> None:
        if self._odm.n_outputs > 1:
            raise ParameterError(f"{name} is for two classes; a machine of more has {other}")

    @property
    def intercept(self) -> float:
        """What is added to the weighted sum of the features; of linear machines only."""
        self._require_two("intercept", "interceptVector")
        return float(self.interceptVector[0])

    @property
    def numSupportVectors(self) -> int:
        """Rows (over landmarks: landmarks) of which a kernel machine is a sum; 0 for a linear one."""
        return self._odm.n_support or 0

    @property
    def gap(self) -> float:
        """The certificate: relative duality gap over all training rows."""
        return self._odm.report["gap"]

    @property
    def report(self) -> dict[str, Any]:
        """How training went, as of `odm-train --json`."""
        return self._odm.report

    @property
    def hasSummary(self) -> bool:
        """Whether `summary` is there."""
        return bool(self._odm.report.get("trace"))

    @property
    def summary(self) -> TrainingSummary:
        """How training went, round by round."""
        if not self.hasSummary:
            raise ParameterError("this model has no summary of its training")
        trace = sorted(self._odm.report["trace"], key=lambda point: point.get("task", 1))
        primal, gaps = ([point[name] for point in trace] for name in ("primal", "gap"))
        tasks = self._odm.report["details"].get("validation", [])
        validated = [loss for losses in tasks for loss in losses]
        return TrainingSummary(primal, gaps, self._odm.report["iterations"], validated)

    setThreshold = _setter("threshold")

    def toLinearSVC(self) -> LinearSVCModel:
        """The same linear machine as Spark's own LinearSVCModel, which Java and Scala load without Python.

        Labels must be 0 and 1, and the session a classic one.
        """
        weights, intercept = self.coefficients, self.intercept
        labels = self._odm.labels.tolist()
        if labels != [1, 0]:
            raise ParameterError(
                f"a LinearSVCModel predicts labels 0 and 1, found {labels[1]:g}, {labels[0]:g}"
            )
        if is_remote():
            raise ParameterError("toLinearSVC needs a classic session of Spark, found Spark Connect")
        name = "org.apache.spark.ml.classification.LinearSVCModel"
        java = LinearSVCModel._new_java_obj(name, self.uid, weights, intercept)
        model = LinearSVCModel(java)
        model.setFeaturesCol(self.getFeaturesCol()).setPredictionCol(self.getPredictionCol())
        return model.setRawPredictionCol(self.getRawPredictionCol()).setThreshold(self.getThreshold())

    def predictRaw(self, value: Vector) -> DenseVector:
        """(-f, f) with the decision value f of one vector; of more than two classes the value of each."""
        if len(value) != self.numFeatures:
            raise ParameterError(wrong_width(len(value), self.numFeatures))
        found = self._odm.decision_function(value.toArray()[None])
        return Vectors.dense([-found[0], found[0]] if self._odm.n_outputs == 1 else found[0])

    def predict(self, value: Vector) -> float:
        """The label of one vector."""
        raw, labels = self.predictRaw(value), self._odm.labels.tolist()
        if self._odm.n_outputs > 1:
            return labels[int(np.argmax(raw.array))]
        positive, negative = labels
        return positive if raw[1] > self.getThreshold() else negative

    def _transform(self, dataset: DataFrame) -> DataFrame:
        features, names = self.getFeaturesCol(), self._output_names()
        check_column(dataset, features, "featuresCol", *FEATURES)
        for parameter, name in names.items():
            if name in dataset.columns:
                raise ParameterError(f"the data have a column '{name}' already; give another {parameter}")
        width = dataset.schema[features].metadata.get("ml_attr", {}).get("num_attrs", self.numFeatures)
        if width != self.numFeatures:
            raise ParameterError(wrong_width(width, self.numFeatures))
        score = f"{self.uid}_score"
        dataset = with_scores(dataset, features, score, self._odm)
        labels, several = self._odm.labels.tolist(), self._odm.n_outputs > 1
        if "rawPredictionCol" in names:
            values = F.col(score) if several else F.array(-F.col(score), F.col(score))
            dataset = dataset.withColumn(names["rawPredictionCol"], array_to_vector(values))
            about = {"ml_attr": {"num_attrs": len(labels)}}
            dataset = dataset.withMetadata(names["rawPredictionCol"], about)
        if "predictionCol" in names:
            if several:
                place = F.array_position(F.col(score), F.array_max(score)).cast("int")
                label = F.element_at(F.array(*map(F.lit, labels)), place)
            else:
                above = F.col(score) > F.lit(self.getThreshold())
                label = F.when(above, F.lit(labels[0])).otherwise(F.lit(labels[1]))
            dataset = dataset.withColumn(names["predictionCol"], label)
            if sorted(labels) == list(range(len(labels))):
                nominal = {"ml_attr": {"type": "nominal", "num_vals": len(labels)}}
                dataset = dataset.withMetadata(names["predictionCol"], nominal)
        return dataset.drop(score)

    def _output_names(self) -> dict[str, str]:
        """The columns that the model adds, by parameter; an empty name is none."""
        wanted = {name: self.getOrDefault(name) for name in ("rawPredictionCol", "predictionCol")}
        return {parameter: name for parameter, name in wanted.items() if name}

    def write(self) -> ModelWriter:
        """A writer; `save(path)` is short for `write().save(path)`."""
        return ModelWriter(self)

    @classmethod
    def read(cls) -> ModelReader:
        """A reader; `load(path)` is short for `read().load(path)`."""
        return ModelReader(cls)

    @property
    def _odm(self) -> Model:
        if self.odm is None:
            raise ParameterError(
                "this model is empty; ODMClassifier.fit or ODMClassificationModel.load make one"
            )
        return self.odm

    @property
    def _linear_function(self) -> LinearFunction:
        function = self._odm.function
        if not isinstance(function, LinearFunction):
            raise ParameterError(
                f"a machine with kernel {self._odm.formula.name} has no coefficients; `odm` has its vectors"
            )
        return function


# ---------------------------------------------------------------------------------------- files


class ParamsWriter(util.DefaultParamsWriter):
    """Parameters as pyspark writes them, without its detour by Java: Spark Connect has none."""

    def save(self, path: str) -> None:
        """Write to this directory."""
        for folder, text in self.texts().items():
            lines = self.sparkSession.createDataFrame([(text,)], ["value"]).coalesce(1)
            mode = "overwrite" if self.shouldOverwrite else "error"
            lines.write.mode(mode).text(os.path.join(path, folder))

    def texts(self) -> dict[str, str]:
        """By the name of the folder."""
        session: Any = self.sparkSession
        return {"metadata": self._get_metadata_to_save(self.instance, session)}


class ModelWriter(ParamsWriter):
    """Our model file beside the parameters."""

    instance: ODMClassificationModel

    def texts(self) -> dict[str, str]:
        """By the name of the folder."""
        return super().texts() | {MODEL_FOLDER: self.instance._odm.to_bytes().decode().removesuffix("\n")}


class ModelReader(util.DefaultParamsReader):
    """Reads what ModelWriter wrote."""

    def load(self, path: str) -> ODMClassificationModel:
        """The model that was saved there."""
        model = super().load(path)
        folder = os.path.join(path, MODEL_FOLDER)
        found = [row[0] for row in self.sparkSession.read.text(folder, wholetext=True).collect()]
        if len(found) != 1:
            raise ModelFormatError(f"expected one model file, found {len(found)}", folder)
        odm = load_model(found[0].encode())
        if odm.scheme not in ("binary", "ovr") or odm.formula.name == "precomputed":
            raise ModelFormatError("expected a machine of classes on features", folder)
        model.odm = odm
        return model
