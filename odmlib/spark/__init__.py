"""ODM on Apache Spark: an Estimator and a Model for pyspark.ml; needs pyspark 3.5 or later.

`ODMClassifier` has the parameter names and columns of pyspark.ml.classification.LinearSVC. The rows stay
where they are; docs/spark.md says how the compiled package reaches the executors.
"""

from odmlib.spark.classifier import ODMClassificationModel, ODMClassifier

__all__ = ["ODMClassificationModel", "ODMClassifier"]
