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
from inspect import signature
from typing import TYPE_CHECKING, Any

import numpy as np
from pyspark import keyword_only
from pyspark.ml.classification import ClassificationModel, Classifier
from pyspark.ml.linalg import DenseVector, Vector, Vectors, VectorUDT
from pyspark.ml.param import Param, Params, TypeConverters
from pyspark.ml.param.shared import (
    HasAggregationDepth,
    HasFitIntercept,
    HasMaxIter,
    HasRegParam,
    HasSeed,
    HasThreshold,
    HasTol,
    HasWeightCol,
)
from pyspark.ml.util import (
    DefaultParamsReadable,
    DefaultParamsReader,
    DefaultParamsWritable,
    DefaultParamsWriter,
)
from pyspark.sql import functions as F
from pyspark.sql.types import NumericType

from odmlib.errors import ConvergenceWarning, ModelFormatError, ParameterError
from odmlib.machines.training import convergence_message
from odmlib.model.functions import Function, LinearFunction
from odmlib.model.model import Model
from odmlib.model.text_format import load_model
from odmlib.options import TrainOptions
from odmlib.solvers.control import CONVERGED
from odmlib.solvers.distributed import MAX_ROUNDS
from odmlib.spark.blocks import BLOCK_VALUES, blocks_of_rows, dataset_of
from odmlib.spark.limits import PARTITIONERS, check_options
from odmlib.spark.training import train_blocks

if TYPE_CHECKING:
    from pyspark import RDD
    from pyspark.sql import DataFrame

# parameters that say how a kernel machine is trained, by the names that odmlib.train has for them
OPTION_OF = {"stopLevel": "stop_level", "cacheMB": "cache_mb"}
KERNEL_PARAMS = (
    "gamma",
    "degree",
    "coef0",
    "approx",
    "rank",
    "partition",
    "partitions",
    "levels",
    "stopLevel",
    "landmarks",
    "cacheMB",
)

BYTES_PER_VALUE = 12  # of a block
MAX_BLOCK_MB = 2000  # what a task gets at once must stay below 2 GB

MODEL_FOLDER = "odmlib-model"  # inside the directory of a saved model: our model file as Spark's text


def _number_or_name(value: Any) -> float | str:
    return value if isinstance(value, str) else TypeConverters.toFloat(value)


class ODMParams(
    HasMaxIter,
    HasRegParam,
    HasTol,
    HasFitIntercept,
    HasSeed,
    HasWeightCol,
    HasAggregationDepth,
    HasThreshold,
):
    """Parameters that the estimator and its model share."""

    C: Param[float] = Param(
        Params._dummy(), "C", "weight of one row's loss; or give regParam", TypeConverters.toFloat
    )
    nu: Param[float] = Param(
        Params._dummy(),
        "nu",
        "weight of deviations above the band relative to below, 0 to 1",
        TypeConverters.toFloat,
    )
    theta: Param[float] = Param(
        Params._dummy(), "theta", "half-width of the loss-free band, 0 <= theta < 1", TypeConverters.toFloat
    )
    bias: Param[float] = Param(
        Params._dummy(),
        "bias",
        "value of the constant feature that carries the intercept (fitIntercept)",
        TypeConverters.toFloat,
    )
    threshold: Param[float] = Param(
        Params._dummy(),
        "threshold",
        "label 1 is predicted where the decision value is larger; any number",
        TypeConverters.toFloat,
    )

    kernel: Param[str] = Param(
        Params._dummy(), "kernel", "kernel: linear, rbf or poly", TypeConverters.toString
    )
    gamma: Param[Any] = Param(
        Params._dummy(), "gamma", "gamma of rbf and poly: a number, 'scale' or 'auto'", _number_or_name
    )
    degree: Param[int] = Param(Params._dummy(), "degree", "degree of poly", TypeConverters.toInt)
    coef0: Param[float] = Param(Params._dummy(), "coef0", "coef0 of poly", TypeConverters.toFloat)
    approx: Param[str] = Param(
        Params._dummy(), "approx", "nystrom: a machine over `rank` landmarks only", TypeConverters.toString
    )
    rank: Param[int] = Param(Params._dummy(), "rank", "landmarks of nystrom", TypeConverters.toInt)
    partition: Param[str] = Param(
        Params._dummy(),
        "partition",
        "kernels without approx, how rows go into partitions: " + ", ".join(PARTITIONERS),
        TypeConverters.toString,
    )
    partitions: Param[int] = Param(
        Params._dummy(), "partitions", "partitions at the first level", TypeConverters.toInt
    )
    levels: Param[int] = Param(
        Params._dummy(), "levels", "merges from the first level to the whole problem", TypeConverters.toInt
    )
    stopLevel: Param[int] = Param(
        Params._dummy(),
        "stopLevel",
        "end at this level with the average of its machines",
        TypeConverters.toInt,
    )
    landmarks: Param[int] = Param(
        Params._dummy(), "landmarks", "rows that strata form around", TypeConverters.toInt
    )
    standardization: Param[bool] = Param(
        Params._dummy(),
        "standardization",
        "divide the features by their standard deviations before training (linear machines)",
        TypeConverters.toBoolean,
    )
    maxBlockSizeInMB: Param[float] = Param(
        Params._dummy(), "maxBlockSizeInMB", "of a block of rows; 0: about 200", TypeConverters.toFloat
    )
    cacheMB: Param[float] = Param(
        Params._dummy(), "cacheMB", "cache for kernel rows of one task, in MB", TypeConverters.toFloat
    )

    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        self._setDefault(
            kernel="linear",
            gamma="scale",
            degree=3,
            coef0=0.0,
            partition=PARTITIONERS[0],
            cacheMB=200.0,
            standardization=False,
            maxBlockSizeInMB=0.0,
            maxIter=MAX_ROUNDS,
            tol=1e-3,
            fitIntercept=True,
            bias=1.0,
            seed=0,
            aggregationDepth=2,
            threshold=0.0,
            C=1.0,
            nu=0.5,
            theta=0.2,
        )

    def getC(self) -> float:
        """The value of C."""
        return self.getOrDefault(self.C)

    def getNu(self) -> float:
        """The value of nu."""
        return self.getOrDefault(self.nu)

    def getTheta(self) -> float:
        """The value of theta."""
        return self.getOrDefault(self.theta)

    def getBias(self) -> float:
        """The value of bias."""
        return self.getOrDefault(self.bias)

    def getKernel(self) -> str:
        """The value of kernel."""
        return self.getOrDefault(self.kernel)


class ODMClassifier(Classifier, ODMParams, DefaultParamsWritable, DefaultParamsReadable):
    """Optimal margin distribution machine on a DataFrame, trained where its partitions are.

    Columns as in LinearSVC: featuresCol (vectors), labelCol (0 and 1, or -1 and +1), weightCol; the model
    adds rawPredictionCol and predictionCol. Stops at the relative duality gap `tol`, computed over all rows.
    """

    _input_kwargs: dict[str, Any]  # of keyword_only

    @keyword_only
    def __init__(
        self,
        *,
        featuresCol: str = "features",
        labelCol: str = "label",
        predictionCol: str = "prediction",
        rawPredictionCol: str = "rawPrediction",
        weightCol: str | None = None,
        maxIter: int = MAX_ROUNDS,
        regParam: float | None = None,
        tol: float = 1e-3,
        fitIntercept: bool = True,
        bias: float = 1.0,
        threshold: float = 0.0,
        aggregationDepth: int = 2,
        seed: int = 0,
        C: float = 1.0,
        nu: float = 0.5,
        theta: float = 0.2,
        kernel: str = "linear",
        gamma: float | str = "scale",
        degree: int = 3,
        coef0: float = 0.0,
        approx: str | None = None,
        rank: int | None = None,
        partition: str = PARTITIONERS[0],
        partitions: int | None = None,
        levels: int | None = None,
        stopLevel: int | None = None,
        landmarks: int | None = None,
        cacheMB: float = 200.0,
        standardization: bool = False,
        maxBlockSizeInMB: float = 0.0,
    ):
        super().__init__()
        self._set(**self._input_kwargs)

    @keyword_only
    def setParams(self, **given: Any) -> ODMClassifier:
        """Set parameters by their names."""
        return self._set(**given)

    def setMaxIter(self, value: int) -> ODMClassifier:
        """Rounds at most: steps of Newton's method, of L-BFGS for more than 1000 columns."""
        return self._set(maxIter=value)

    def setRegParam(self, value: float) -> ODMClassifier:
        """1 / (C x rows), instead of C."""
        return self._set(regParam=value)

    def setC(self, value: float) -> ODMClassifier:
        """Weight of one row's loss."""
        return self._set(C=value)

    def setNu(self, value: float) -> ODMClassifier:
        """Weight of deviations above the band relative to below."""
        return self._set(nu=value)

    def setTheta(self, value: float) -> ODMClassifier:
        """Half-width of the band."""
        return self._set(theta=value)

    def setBias(self, value: float) -> ODMClassifier:
        """Value of the constant feature."""
        return self._set(bias=value)

    def setTol(self, value: float) -> ODMClassifier:
        """Relative duality gap at which training stops."""
        return self._set(tol=value)

    def setFitIntercept(self, value: bool) -> ODMClassifier:
        """Whether there is an intercept."""
        return self._set(fitIntercept=value)

    def setThreshold(self, value: float) -> ODMClassifier:
        """Decision value above which label 1 is predicted."""
        return self._set(threshold=value)

    def setWeightCol(self, value: str) -> ODMClassifier:
        """Column of row weights."""
        return self._set(weightCol=value)

    def setAggregationDepth(self, value: int) -> ODMClassifier:
        """Levels of the tree in which sums are made."""
        return self._set(aggregationDepth=value)

    def setSeed(self, value: int) -> ODMClassifier:
        """Seed of everything random."""
        return self._set(seed=value)

    def setKernel(self, value: str) -> ODMClassifier:
        """linear, rbf or poly."""
        return self._set(kernel=value)

    def train_options(self) -> TrainOptions:
        """The parameters as odmlib's own options; ParameterError where one is out of range."""
        weight: dict[str, Any] = {"C": self.getC()}
        if self.isSet(self.regParam):
            if self.isSet(self.C):
                raise ParameterError("C and regParam = 1/(C x rows) say the same thing; give one of them")
            if not self.getRegParam() > 0:
                raise ParameterError(f"regParam must be > 0, found {self.getRegParam():g}")
            weight = {"lambda_": 1 / self.getRegParam()}
        if not self.getBias() > 0:
            raise ParameterError(f"bias must be > 0, found {self.getBias():g}; fitIntercept=False for none")
        if self.getOrDefault(self.aggregationDepth) < 1:
            raise ParameterError(
                f"aggregationDepth must be at least 1, found {self.getOrDefault(self.aggregationDepth)}"
            )
        bias: float | None = self.getBias() if self.getFitIntercept() else -1.0
        if not (self.isSet(self.bias) or self.isSet(self.fitIntercept)):
            bias = None  # as the kernel has it: rbf none
        linear = self.getKernel() == "linear"
        kernel = {
            OPTION_OF.get(name, name): self.getOrDefault(name) for name in KERNEL_PARAMS if self.isSet(name)
        }
        options = TrainOptions(
            machine="sodm",
            kernel=self.getKernel(),
            nu=self.getNu(),
            theta=self.getTheta(),
            tol=self.getTol(),
            max_iter=self.getMaxIter() if linear or self.isSet(self.maxIter) else None,
            seed=self.getSeed(),
            bias=bias,
            **weight,
            **kernel,
        )
        if self.getOrDefault(self.standardization) and not linear:
            raise ParameterError(
                "standardization is for kernel linear; put a StandardScaler before a kernel machine"
            )
        if not 0 <= self.getOrDefault(self.maxBlockSizeInMB) <= MAX_BLOCK_MB:
            found = self.getOrDefault(self.maxBlockSizeInMB)
            raise ParameterError(f"maxBlockSizeInMB must be from 0 (auto) to {MAX_BLOCK_MB}, found {found:g}")
        if linear:
            for name in ("partitions", "gamma", "degree", "coef0"):
                if self.isSet(name):
                    raise ParameterError(f"{name} has no meaning with kernel linear")
        check_options(options)
        return options

    def _fit(self, dataset: DataFrame) -> ODMClassificationModel:
        options = self.train_options()
        records = self._records(dataset)
        n_partitions = records.getNumPartitions()
        block_values = int(self.getOrDefault(self.maxBlockSizeInMB) * 2**20 / BYTES_PER_VALUE) or BLOCK_VALUES
        blocks = records.mapPartitionsWithIndex(
            lambda partition, some: blocks_of_rows(partition, n_partitions, some, block_values)
        )
        standardized = self.getOrDefault(self.standardization)
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


def check_column(dataset: DataFrame, name: str, parameter: str, kind: type, expected: str) -> None:
    if name not in dataset.columns:
        known = ", ".join(dataset.columns)
        raise ParameterError(f"the data have no column '{name}' ({parameter}); they have {known}")
    found = dataset.schema[name].dataType
    if not isinstance(found, kind):
        raise ParameterError(
            f"column '{name}' ({parameter}) must hold {expected}, found {found.simpleString()}"
        )


class ODMClassificationModel(ClassificationModel, ODMParams, DefaultParamsWritable, DefaultParamsReadable):
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

    def setThreshold(self, value: float) -> ODMClassificationModel:
        """Decision value above which label 1 is predicted."""
        return self._set(threshold=value)

    def predictRaw(self, value: Vector) -> DenseVector:
        """(-f, f) with the decision value f of one vector."""
        return raw_of(self._decision_of()(value))

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
        if raw:
            both = F.udf(lambda vector: raw_of(decide(vector)), VectorUDT(), **without_arrow)
            dataset = dataset.withColumn(raw, both(features))
        if prediction and raw:
            label = F.udf(
                lambda found: positive if found[1] > threshold else negative, "double", **without_arrow
            )
            dataset = dataset.withColumn(prediction, label(F.col(raw)))
        elif prediction:
            label = F.udf(
                lambda vector: positive if decide(vector) > threshold else negative, "double", **without_arrow
            )
            dataset = dataset.withColumn(prediction, label(features))
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
            return lambda vector: decision_value(vector, weights, intercept)
        return lambda vector: expansion_value(vector, function, width)


def raw_of(decision: float) -> DenseVector:
    return Vectors.dense([-decision, decision])


def expansion_value(vector: Any, function: Function, width: int) -> float:
    """One row's, of a kernel machine."""
    check_vector(vector, width)
    return float(function.scores(dataset_of([vector]), 1)[0, 0])


def check_vector(vector: Any, width: int) -> None:
    if vector is None:
        raise ParameterError("a row has no features (null)")
    if len(vector) != width:
        raise ParameterError(f"a row has {len(vector)} features, the model was trained with {width}")


def decision_value(vector: Any, weights: Any, intercept: float) -> float:
    """One row's, of a linear machine; a vector of another width is an error."""
    check_vector(vector, len(weights))
    if hasattr(vector, "indices"):
        return float(vector.values @ weights[vector.indices]) + intercept
    return float(vector.array @ weights) + intercept


# ---------------------------------------------------------------------------------------- files


class ModelWriter(DefaultParamsWriter):
    """Parameters as pyspark writes them, and our model file beside."""

    instance: ODMClassificationModel

    def saveImpl(self, path: str) -> None:
        """Called by `save`."""
        super().saveImpl(path)
        text = self.instance._odm.to_bytes().decode().removesuffix("\n")
        lines = self.sparkSession.createDataFrame([(text,)], ["value"]).coalesce(1)
        lines.write.text(os.path.join(path, MODEL_FOLDER))


class ModelReader(DefaultParamsReader):
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
