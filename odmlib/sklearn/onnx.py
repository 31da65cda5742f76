"""skl2onnx and the estimators of odmlib: pipelines that hold one of them become ONNX graphs.

`label` is what `predict` says. `probabilities` are those of `predict_proba` where the estimator was fitted
with probability=True; without, or with the option raw_scores, they are the values of `decision_function`
(two classes: -f and f), as skl2onnx does it for other machines without probabilities.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from odmlib.errors import ParameterError
from odmlib.model.export.common import exportable
from odmlib.model.export.onnx_graph import (
    OLDEST_OPSET,
    TARGET,
    GraphBuilder,
    label_array,
    pair_matrices,
    places_of,
    probabilities_of,
    scores_of,
    votes_of,
)
from odmlib.sklearn import estimators
from odmlib.sklearn.base import MarginClassifier

OPTIONS = {
    "zipmap": [True, False, "columns"],
    "nocl": [True, False],
    "output_class_labels": [False, True],
    "raw_scores": [True, False],
}


def register_converters() -> None:
    """Teach skl2onnx, which must be installed, all estimators of odmlib; skl2onnx.to_onnx then takes them."""
    from skl2onnx import update_registered_converter
    from skl2onnx.common.shape_calculator import calculate_linear_classifier_output_shapes

    for estimator in vars(estimators).values():
        if isinstance(estimator, type) and issubclass(estimator, MarginClassifier):
            update_registered_converter(
                estimator,
                f"Odmlib{estimator.__name__}",
                calculate_linear_classifier_output_shapes,
                convert,
                options=OPTIONS,
            )


def convert(scope: Any, operator: Any, container: Any) -> None:
    """Write the nodes of one estimator into the graph of a pipeline."""
    estimator = operator.raw_operator
    if container.target_opset < OLDEST_OPSET:
        raise ParameterError(
            f"target_opset must be {OLDEST_OPSET} or more for {type(estimator).__name__}, "
            f"found {container.target_opset}"
        )
    function = exportable(estimator.model_, TARGET)
    is_double = type(operator.inputs[0].type).__name__.startswith("Double")
    prefix = scope.get_unique_variable_name("odmlib") + "_"
    graph = GraphBuilder("float64" if is_double else "float32", prefix)
    rows = graph.cast(operator.inputs[0].full_name)
    scores = scores_of(graph, rows, function, estimator.n_features_in_)
    values = class_values(graph, scores, estimator)
    two = len(estimator.classes_) == 2
    # two classes: the model's first is the estimator's second
    places = places_of(graph, values, "binary" if two else "ovr", len(estimator.classes_))
    labels = label_array(estimator.classes_[::-1] if two else estimator.classes_)
    if labels.dtype not in (np.int64, np.object_):
        raise ParameterError(
            f"skl2onnx knows whole numbers and texts as labels, not {estimator.classes_.dtype}"
        )
    raw = container.get_options(estimator, {"raw_scores": False})["raw_scores"]
    if raw or not estimator.probability:
        result = graph.add("Concat", graph.add("Neg", values), values, axis=1) if two else values
    else:
        result = probabilities_of(graph, scores, places, estimator.model_)
        result = graph.add("Gather", result, graph.wholes([1, 0]), axis=1) if two else result
    label, probabilities = (output.full_name for output in operator.outputs)
    graph.nodes.append(graph.helper.make_node("Gather", [graph.constant(labels), places], [label]))
    graph.nodes.append(graph.helper.make_node("Identity", [result], [probabilities]))
    hand_over(graph, container)


def class_values(graph: GraphBuilder, scores: str, estimator: MarginClassifier) -> str:
    """What decision_function says: (rows x 1) for two classes, else (rows x classes)."""
    model, n_classes = estimator.model_, len(estimator.classes_)
    if n_classes == 2:
        return scores if model.n_outputs == 1 else graph.add("MatMul", scores, graph.reals([[1.0], [-1.0]]))
    if model.scheme != "ovo":
        return scores
    first, second = pair_matrices(n_classes)
    sums = graph.add("MatMul", scores, graph.reals(first - second))
    size = graph.add("Add", graph.add("Abs", sums), graph.reals(1.0))
    part = graph.add("Div", sums, graph.add("Mul", size, graph.reals(3.0)))
    return graph.add("Add", votes_of(graph, scores, n_classes), part)


def hand_over(graph: GraphBuilder, container: Any) -> None:
    """The constants and nodes of a graph become those of skl2onnx's container."""
    for constant in graph.constants:
        values = graph.numpy_helper.to_array(constant) if constant.string_data else None
        content = constant if values is None else [str(text) for text in np.ravel(values)]
        container.add_initializer(constant.name, constant.data_type, list(constant.dims), content)
    for node in graph.nodes:
        attributes = {item.name: graph.helper.get_attribute_value(item) for item in node.attribute}
        container.add_node(node.op_type, list(node.input), list(node.output), **attributes)
