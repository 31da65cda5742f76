"""ODM on Apache Spark: an Estimator and a Model for pyspark.ml; needs pyspark 3.5 or later.

`ODMClassifier` has the parameter names and columns of pyspark.ml.classification.LinearSVC. The rows stay
where they are; docs/spark.md says how the compiled package reaches the executors.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from odmlib.spark.classifier import ODMClassificationModel, ODMClassifier

__all__ = ["ODMClassificationModel", "ODMClassifier"]


def __getattr__(name: str) -> Any:
    """Both are loaded when asked for: tasks need neither them nor what pyspark.ml loads."""
    if name in __all__:
        from odmlib.spark import classifier

        return getattr(classifier, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
