"""ODMClassifier and its model for pyspark.ml, with the parameter names and columns of LinearSVC.

Differences to LinearSVC, which minimises  mean loss + regParam/2 |w|^2 :  the loss is ODM's band
(machines/odm.py) and the objective is written with C, the weight of one row's loss. regParam may be given
instead: lambda = C x rows = 1 / regParam. The intercept is the weight of a constant feature `bias`, and is
regularised as the others are. Features are not standardised: put a StandardScaler before it.

`kernel` other than linear: machines over landmarks (`approx="nystrom"`), or by levels (levels.py).
"""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable
from inspect import Parameter, Signature, signature
from typing import TYPE_CHECKING, Any

import numpy as np
from pyspark.ml import util
from pyspark.ml.classification import ClassificationModel, Classifier
from pyspark.ml.linalg import DenseVector, Vector, Vectors, VectorUDT
from pyspark.ml.param import Param, Params, TypeConverters
from pyspark.ml.param import shared as of_spark
from pyspark.sql import functions as F
from pyspark.sql.types import NumericType

from odmlib.errors import ConvergenceWarning, ModelFormatError, ParameterError
from odmlib.machines.building import convergence_message
from odmlib.model.functions import LinearFunction
from odmlib.model.model import Model
from odmlib.model.text_format import load_model
from odmlib.options import TrainOptions
from odmlib.solvers.control import CONVERGED
from odmlib.solvers.distributed.blocks import TUNING
from odmlib.spark.blocks import BLOCK_VALUES, blocks_of_rows, dataset_of
from odmlib.spark.limits import PARTITIONERS, check_options
from odmlib.spark.training import train_blocks

if TYPE_CHECKING:
    from pyspark import RDD
    from pyspark.sql import DataFrame

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

    Columns as in LinearSVC: featuresCol (vectors), labelCol (0 and 1, or -1 and +1), weightCol; the model
    adds rawPredictionCol and predictionCol. Stops at the relative duality gap `tol`, computed over all rows,
    or after `maxIter` rounds: steps of Newton's method, of L-BFGS for more than 1000 columns.
    """

    def __init__(self, **given: Any):
        super().__init__()
        self.setParams(**given)

    def setParams(self, **given: Any) -> ODMClassifier:
        """Set parameters by their names."""
        for name in given:
            if not self.hasParam(name):
                raise TypeError(f"ODMClassifier has no parameter {name!r}")
        return self._set(**given)

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
            **{name: value(name) for name in ("kernel", "nu", "theta", "tol", "seed")},
            **{OPTION_OF.get(name, name): value(name) for name in KERNEL_PARAMS if given(name)},
        )
        if value("standardization") and not linear:
            raise ParameterError(
                "standardization is for kernel linear; put a StandardScaler before a kernel machine"
            )
        size = value("maxBlockSizeInMB")
        if not 0 <= size <= MAX_BLOCK_MB:
            raise ParameterError(f"maxBlockSizeInMB must be from 0 (auto) to {MAX_BLOCK_MB}, found {size:g}")
        for name in ("partitions", "gamma", "degree", "coef0"):
            if linear and given(name):
                raise ParameterError(f"{name} has no meaning with kernel linear")
        check_options(options)
        return options

    def _fit(self, dataset: DataFrame) -> ODMClassificationModel:
        options = self.train_options()
        records = self._records(dataset)
        n_partitions = records.getNumPartitions()
        block_values = int(self.getOrDefault("maxBlockSizeInMB") * 2**20 / BYTES_PER_VALUE) or BLOCK_VALUES
        blocks = records.mapPartitionsWithIndex(
            lambda partition, some: blocks_of_rows(partition, n_partitions, some, block_values)
        )
        standardized = self.getOrDefault("standardization")
        model = train_blocks(blocks, options, self.getAggregationDepth(), standardize=standardized)
        if model.report["status"] != CONVERGED:
            message = convergence_message(model.report, options.tol).replace("-c", "C")
            warnings.warn(message, ConvergenceWarning, stacklevel=3)
        return self._copyValues(ODMClassificationModel(model))

    def _records(self, dataset: DataFrame) -> RDD:
        """(vector, label, weight) of every row."""
        weight_column = self.getOrDefault(self.weightCol) if self.isDefined(self.weightCol) else None
        check_column(dataset, self.getFeaturesCol(), "featuresCol", VectorUDT, "vectors")
        check_column(dataset, self.getLabelCol(), "labelCol", NumericType, "numbers")
        weight = F.lit(1.0)
        if weight_column:
            check_column(dataset, weight_column, "weightCol", NumericType, "numbers")
            weight = F.col(weight_column).cast("double")
        columns = F.col(self.getFeaturesCol()), F.col(self.getLabelCol()).cast("double"), weight
        return dataset.select(*columns).rdd


for _name in DEFAULTS:
    setattr(ODMClassifier, f"set{_name[0].upper()}{_name[1:]}", _setter(_name))
ODMClassifier.__init__.__signature__ = Signature(  # type: ignore[attr-defined]
    [Parameter("self", Parameter.POSITIONAL_OR_KEYWORD)]
    + [
        Parameter(name, Parameter.KEYWORD_ONLY, default=default)
        for name, default in ({f"{column}Col": column for column in COLUMNS} | DEFAULTS).items()
    ]
)


def check_column(dataset: DataFrame, name: str, parameter: str, kind: type, expected: str) -> None:
    if name not in dataset.columns:
        known = ", ".join(dataset.columns)
        raise ParameterError(f"the data have no column '{name}' ({parameter}); they have {known}")
    found = dataset.schema[name].dataType
    if not isinstance(found, kind):
        raise ParameterError(
            f"column '{name}' ({parameter}) must hold {expected}, found {found.simpleString()}"
        )


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
        """2"""
        return 2

    @property
    def coefficients(self) -> DenseVector:
        """The weight of every feature; of linear machines only."""
        function = self._linear_function
        weights = np.zeros(self.numFeatures)
        weights[function.columns] = function.weights[:, 0]
        return Vectors.dense(weights)

    @property
    def intercept(self) -> float:
        """What is added to the weighted sum of the features; of linear machines only."""
        return float(self._linear_function.bias * self._linear_function.bias_weights[0])

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

    setThreshold = _setter("threshold")

    def predictRaw(self, value: Vector) -> DenseVector:
        """(-f, f) with the decision value f of one vector."""
        decision = self._decision_of()(value)
        return Vectors.dense([-decision, decision])

    def predict(self, value: Vector) -> float:
        """The label of one vector."""
        positive, negative = self._odm.labels.tolist()
        return positive if self.predictRaw(value)[1] > self.getThreshold() else negative

    def _transform(self, dataset: DataFrame) -> DataFrame:
        check_column(dataset, self.getFeaturesCol(), "featuresCol", VectorUDT, "vectors")
        # with Arrow a vector would have to become a list; pyspark.ml.functions would do without the second
        # function, but needs pandas in pyspark 3.5
        without_arrow = {"useArrow": False} if "useArrow" in signature(F.udf).parameters else {}
        decide, threshold = self._decision_of(), self.getThreshold()
        positive, negative = self._odm.labels.tolist()
        features = F.col(self.getFeaturesCol())
        raw, prediction = self.getRawPredictionCol(), self.getPredictionCol()
        decision, column = decide, features
        if raw:

            def raw_of(vector: Any) -> DenseVector:
                found = decide(vector)
                return Vectors.dense([-found, found])

            dataset = dataset.withColumn(raw, F.udf(raw_of, VectorUDT(), **without_arrow)(features))
            decision, column = (lambda found: found[1]), F.col(raw)
        if prediction:
            label = F.udf(
                lambda row: positive if decision(row) > threshold else negative, "double", **without_arrow
            )
            dataset = dataset.withColumn(prediction, label(column))
        return dataset

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

    def _decision_of(self) -> Callable[[Any], float]:
        """The function from a vector to its decision value, for tasks."""
        function, width = self._odm.function, self.numFeatures
        if isinstance(function, LinearFunction):
            weights, intercept = self.coefficients.array, self.intercept

            def score(vector: Any) -> float:
                sparse = hasattr(vector, "indices")
                values, own = (vector.values, weights[vector.indices]) if sparse else (vector.array, weights)
                return float(values @ own) + intercept
        else:

            def score(vector: Any) -> float:
                return float(function.scores(dataset_of([vector]), 1)[0, 0])

        def decide(vector: Any) -> float:
            if vector is None:
                raise ParameterError("a row has no features (null)")
            if len(vector) != width:
                raise ParameterError(f"a row has {len(vector)} features, the model was trained with {width}")
            return score(vector)

        return decide


# ---------------------------------------------------------------------------------------- files


class ModelWriter(util.DefaultParamsWriter):
    """Parameters as pyspark writes them, and our model file beside."""

    instance: ODMClassificationModel

    def saveImpl(self, path: str) -> None:
        """Called by `save`."""
        super().saveImpl(path)
        text = self.instance._odm.to_bytes().decode().removesuffix("\n")
        lines = self.sparkSession.createDataFrame([(text,)], ["value"]).coalesce(1)
        lines.write.text(os.path.join(path, MODEL_FOLDER))


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
        if odm.scheme != "binary" or odm.formula.name == "precomputed":
            raise ModelFormatError("expected a machine of two classes on features", folder)
        model.odm = odm
        return model
