"""A model as an ONNX graph of plain operators (MatMul, Exp, ...), in float64 or float32.

Input X (rows x features); outputs `label`, `scores` (rows x outputs) and, where the model has them,
`probabilities` (rows x classes). Regression has one output, `prediction` (rows x outputs of the model). ONNX
has an operator for support vector machines, but it knows float32 only and neither our class schemes nor our
bias.

The operators mean the same in all opsets from OLDEST_OPSET on. The default is older than the newest: runtimes
follow later than the onnx package.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from odmlib._core.arrays import Floats
from odmlib._version import __version__
from odmlib.data.files import Target, open_output
from odmlib.data.labels import python_label
from odmlib.data.scaling import Scaling
from odmlib.errors import OdmError, ParameterError
from odmlib.kernels.formula import KernelFormula
from odmlib.model.export.common import (
    HAIRS,
    PRECISIONS,
    check_precision,
    constants_of,
    exportable,
    range_tables,
    rounded,
)
from odmlib.model.functions import KernelFunction, LinearFunction
from odmlib.model.model import Model
from odmlib.model.probability import COUPLING_STEPS, PAIR_FLOOR
from odmlib.model.schemes import class_pairs

if TYPE_CHECKING:
    import onnx

TARGET = "an ONNX graph"
OLDEST_OPSET, DEFAULT_OPSET = 18, 22
IR_VERSION = 10  # of 2024, with which all these opsets can be read
MOST_BYTES = 2**31 - 2**20  # a file of protobuf is below 2 GB


def save_onnx(
    model: Model,
    target: Target,
    precision: str = "float64",
    scaling: Scaling | None = None,
    opset: int = DEFAULT_OPSET,
) -> int:
    """Write the model as an ONNX graph; the number of bytes written. Needs the package onnx.

    precision  float64 or float32: the type of the input and of all numbers in the graph
    scaling    built in where given: rows are then those of the data before odm-scale
    """
    data = onnx_model(model, precision, scaling, opset).SerializeToString()
    with open_output(target) as stream:
        stream.write(data)
    return len(data)


def onnx_model(
    model: Model,
    precision: str = "float64",
    scaling: Scaling | None = None,
    opset: int = DEFAULT_OPSET,
) -> onnx.ModelProto:
    """The model as a checked onnx.ModelProto."""
    function = exportable(model, TARGET)
    onnx = import_onnx()
    newest = onnx.defs.onnx_opset_version()
    if not OLDEST_OPSET <= opset <= newest:
        raise ParameterError(f"opset must be from {OLDEST_OPSET} to {newest}, found {opset}")
    graph = GraphBuilder(precision)
    rows = "X" if scaling is None else scaled(graph, "X", range_tables(scaling, model.n_features), scaling)
    scores = scores_of(graph, rows, function, model.n_features)
    results: dict[str, tuple[str, Any, tuple[int, ...]]]
    if model.is_regression:
        results = {"prediction": (scores, graph.dtype, (model.n_outputs,))}
    else:
        places = places_of(graph, scores, model.scheme, model.n_classes)
        labels = label_array(model.labels)
        results = {
            "label": (graph.add("Gather", graph.constant(labels), places), labels.dtype, ()),
            "scores": (scores, graph.dtype, (model.n_outputs,)),
        }
    if "probability_slopes" in model.extras:
        probabilities = probabilities_of(graph, scores, places, model)
        results["probabilities"] = (probabilities, graph.dtype, (model.n_classes,))
    proto = graph.model(model, results, opset)
    onnx.checker.check_model(proto, full_check=True)
    return proto


def import_onnx() -> Any:
    try:
        import onnx
    except ImportError:
        raise OdmError("ONNX needs the package onnx: pip install 'odmlib[onnx]'") from None
    return onnx


class GraphBuilder:
    """Nodes and constants on their way to a graph. `prefix` keeps names apart from those of others."""

    def __init__(self, precision: str, prefix: str = ""):
        check_precision(precision)
        self.helper = import_onnx().helper
        self.numpy_helper = import_onnx().numpy_helper
        self.dtype = np.dtype(PRECISIONS[precision])
        self.hair, self.coupling_enough, self.largest = HAIRS[precision]
        self.prefix = prefix
        self.nodes: list[Any] = []
        self.constants: list[Any] = []
        self.n_names = self.n_bytes = 0

    def name(self) -> str:
        self.n_names += 1
        return f"{self.prefix}v{self.n_names}"

    def add(self, operator: str, *inputs: str, outputs: int = 1, **attributes: Any) -> str:
        """A node; the name of its (first) output."""
        names = [self.name() for _ in range(outputs)]
        self.nodes.append(self.helper.make_node(operator, list(inputs), names, **attributes))
        return names[0]

    def reals(self, values: Any) -> str:
        """A constant of the graph's type."""
        return self.constant(rounded(np.asarray(values, np.float64), self.dtype.type, TARGET))

    def wholes(self, values: Any) -> str:
        return self.constant(np.asarray(values, np.int64))

    def constant(self, values: NDArray) -> str:
        self.n_bytes += values.nbytes
        check_size(self.n_bytes)
        name = self.name()
        self.constants.append(self.numpy_helper.from_array(np.asarray(values, order="C"), name))
        return name

    def cast(self, value: str, dtype: Any = None) -> str:
        return self.add("Cast", value, to=self.type_number(self.dtype if dtype is None else dtype))

    def type_number(self, dtype: Any) -> int:
        return self.helper.np_dtype_to_tensor_dtype(np.dtype(dtype))

    def model(
        self, model: Model, results: dict[str, tuple[str, Any, tuple[int, ...]]], opset: int
    ) -> onnx.ModelProto:
        outputs = []
        for name, (value, dtype, shape) in results.items():
            self.nodes.append(self.helper.make_node("Identity", [value], [name]))
            outputs.append(self._value_info(name, dtype, shape))
        inputs = [self._value_info("X", self.dtype, (model.n_features,))]
        graph = self.helper.make_graph(self.nodes, "odmlib", inputs, outputs, self.constants)
        learned = f"{model.n_outputs} outputs" if model.is_regression else f"{model.n_classes} classes"
        proto = self.helper.make_model(
            graph,
            producer_name="odmlib",
            producer_version=__version__,
            opset_imports=[self.helper.make_opsetid("", opset)],
            ir_version=IR_VERSION,
            doc_string=f"{model.machine}, {model.formula.name} kernel, {learned}",
        )
        labels = json.dumps([python_label(label) for label in model.labels])
        self.helper.set_model_props(proto, {"machine": model.machine, "labels": labels})
        return proto

    def _value_info(self, name: str, dtype: Any, shape: tuple[int, ...]) -> Any:
        return self.helper.make_tensor_value_info(name, self.type_number(dtype), ["rows", *shape])


def check_size(n_bytes: int) -> None:
    if n_bytes > MOST_BYTES:
        raise ParameterError(f"the model is too large for {TARGET}, whose file must be below 2 GB")


def label_array(labels: NDArray) -> NDArray:
    """The labels in a type of ONNX: int64, bool, float64, else text."""
    plain = [python_label(label) for label in labels]
    if all(isinstance(label, bool) for label in plain):
        return np.array(plain)
    if all(isinstance(label, int) and abs(label) < 2**63 for label in plain):
        return np.array(plain, dtype=np.int64)
    if all(isinstance(label, int | float) for label in plain):
        return np.array(plain, dtype=np.float64)
    texts = [str(label) for label in plain]
    for text in texts:
        try:
            text.encode()
        except UnicodeEncodeError:
            raise ParameterError(f"label {text[:60]!r} is no Unicode text, which ONNX wants") from None
    return np.array(texts, dtype=object)


def scaled(graph: GraphBuilder, rows: str, ranges: tuple[Floats, Floats], scaling: Scaling) -> str:
    """The rows as odm-scale writes them: ends are met exactly, features without a range become 0."""
    low, high = ranges
    known = low < high
    lower, upper = graph.reals(scaling.lower), graph.reals(scaling.upper)
    lowest, highest = graph.reals(low), graph.reals(high)
    way = graph.add("Mul", graph.add("Sub", upper, lower), graph.add("Sub", rows, lowest))
    line = graph.add("Add", lower, graph.add("Div", way, graph.reals(np.where(known, high - low, 1.0))))
    line = graph.add("Where", graph.add("Equal", rows, highest), upper, line)
    line = graph.add("Where", graph.add("Equal", rows, lowest), lower, line)
    return line if known.all() else graph.add("Where", graph.constant(known), line, graph.reals(0.0))


def scores_of(graph: GraphBuilder, rows: str, function: LinearFunction | KernelFunction, width: int) -> str:
    """(rows x outputs)"""
    match function:
        case KernelFunction():
            sums = expansion(graph, rows, function)
        case LinearFunction():
            check_size(graph.dtype.itemsize * width * function.n_outputs)
            weights = np.zeros((width, function.n_outputs))
            known = function.columns < width
            weights[function.columns[known]] = function.weights[known]
            sums = graph.add("MatMul", rows, graph.reals(weights))
    constants = constants_of(function)
    return graph.add("Add", sums, graph.reals(constants)) if constants.any() else sums


def expansion(graph: GraphBuilder, rows: str, function: KernelFunction) -> str:
    """Sums over support vectors."""
    n, width, outputs = function.n_vectors, function.vectors.n_features, function.terms.n_features
    check_size(graph.dtype.itemsize * max(1, n) * (width + outputs))
    vectors, coefficients = function.vectors.to_dense(), function.coefficients
    if n == 0:  # runtimes do not like empty tables
        vectors, coefficients = np.zeros((1, width)), np.zeros((1, outputs))
    values = kernel_values(graph, rows, vectors, function.formula)
    if function.formula.bias:
        values = graph.add("Add", values, graph.reals(function.formula.bias**2))
    return graph.add("MatMul", values, graph.reals(coefficients))


def kernel_values(graph: GraphBuilder, rows: str, vectors: Floats, formula: KernelFormula) -> str:
    """(rows x vectors)"""
    if formula.name == "rbf":
        return gaussian_values(graph, rows, vectors, formula.gamma)
    # gamma goes into the vectors: onnxruntime would make a factor behind MatMul a float32
    factor = 1.0 if formula.name == "linear" else formula.gamma
    products = graph.add("MatMul", rows, graph.reals(factor * vectors.T))
    if formula.name == "linear":
        return products
    line = graph.add("Add", products, graph.reals(formula.coef0))
    if formula.name == "sigmoid":
        return graph.add("Tanh", line)
    return graph.add("Pow", line, graph.reals(formula.degree))


def gaussian_values(graph: GraphBuilder, rows: str, vectors: Floats, gamma: float) -> str:
    """exp(-gamma |x - v|^2) from |x|^2 - 2 x'v + |v|^2.

    Rows and vectors are moved by the vectors' median first: far from the origin the squares would swallow the
    distance.
    """
    with np.errstate(over="ignore", invalid="ignore"):
        middle = rounded(np.median(vectors, axis=0), graph.dtype.type, TARGET).astype(np.float64)
        moved = vectors - middle
        norms = np.square(moved).sum(axis=1)
        rows = graph.add("Sub", rows, graph.reals(middle))
        products = graph.add("MatMul", rows, graph.reals(-2 * moved.T))
    squares = graph.add("ReduceSumSquare", rows, graph.wholes([1]), keepdims=1)
    distances = graph.add("Add", graph.add("Add", products, graph.reals(norms)), squares)
    distances = graph.add("Max", distances, graph.reals(0.0))
    return graph.add("Exp", graph.add("Mul", distances, graph.reals(-gamma)))


def places_of(graph: GraphBuilder, scores: str, scheme: str, n_classes: int) -> str:
    """The position of the predicted label of every row."""
    if scheme == "binary":
        first = graph.add("Greater", scores, graph.reals(0.0))
        one_each = graph.add("Reshape", first, graph.wholes([-1]))
        return graph.add("Where", one_each, graph.wholes(0), graph.wholes(1))
    values = votes_of(graph, scores, n_classes) if scheme == "ovo" else scores
    return graph.add("ArgMax", values, axis=1, keepdims=0)


def votes_of(graph: GraphBuilder, scores: str, n_classes: int) -> str:
    """Duels won by every class."""
    first, second = pair_matrices(n_classes)
    won = graph.cast(graph.add("Greater", scores, graph.reals(0.0)))
    lost = graph.add("Sub", graph.reals(1.0), won)
    by_first = graph.add("MatMul", won, graph.reals(first))
    return graph.add("Add", by_first, graph.add("MatMul", lost, graph.reals(second)))


def pair_matrices(n_classes: int) -> tuple[Floats, Floats]:
    """(pairs x classes), 1 at the first and at the second class of every pair."""
    first, second = class_pairs(n_classes)
    unit = np.eye(n_classes)
    return unit[first], unit[second]


def probabilities_of(graph: GraphBuilder, scores: str, places: str, model: Model) -> str:
    """model/probability.py as a graph: (rows x classes)."""
    slopes, offsets = (graph.reals(model.extras[f"probability_{name}"]) for name in ("slopes", "offsets"))
    line = graph.add("Add", graph.add("Mul", scores, slopes), offsets)
    line = graph.add("Clip", line, graph.reals(-graph.largest), graph.reals(graph.largest))
    if model.scheme == "binary":
        both = [graph.add("Sigmoid", line), graph.add("Sigmoid", graph.add("Neg", line))]
        values = graph.add("Concat", *both, axis=1)
    elif model.scheme == "ovo":
        values = coupled(graph, graph.add("Sigmoid", line), model.n_classes)
    else:
        values = graph.add("Softmax", line, axis=1)
    return agreeing(graph, values, places, model.n_classes)


def agreeing(graph: GraphBuilder, values: str, places: str, k: int) -> str:
    """The nearest probabilities whose largest belongs to the predicted class.

    The other classes, most probable first, share with the predicted one as long as each is above the average
    so far; that average then divides those who share from those who do not.
    """
    is_own = graph.add(
        "Equal", graph.add("Unsqueeze", places, graph.wholes([1])), graph.wholes(np.arange(k)[None])
    )
    zero, minus = graph.reals(0.0), graph.reals(-1.0)
    own = graph.add("ReduceSum", graph.add("Where", is_own, values, zero), graph.wholes([1]), keepdims=1)
    others = graph.add("Where", is_own, minus, values)
    ordered = graph.add("TopK", others, graph.wholes([k - 1]), outputs=2, axis=1)
    before = graph.add("Add", own, graph.add("CumSum", ordered, graph.wholes(1), exclusive=1))
    average = graph.add("Div", before, graph.reals(np.arange(1.0, k)))
    sharing = graph.cast(graph.add("GreaterOrEqual", ordered, average))
    axis = graph.wholes([1])
    n = graph.add("ReduceSum", sharing, axis, keepdims=1)
    taken = graph.add("ReduceSum", graph.add("Mul", sharing, ordered), axis, keepdims=1)
    share = graph.add("Div", graph.add("Add", own, taken), graph.add("Add", n, graph.reals(1.0)))
    lead = graph.add("Add", graph.reals(1.0), graph.add("Mul", n, graph.reals(graph.hair)))
    for_own = graph.add("Mul", share, lead)
    # not share times (1 - hair): onnxruntime drops a factor that is 1 in float32
    for_others = graph.add("Sub", share, graph.add("Mul", share, graph.reals(graph.hair)))
    some = graph.add("Greater", n, zero)
    shares = graph.add("And", some, graph.add("GreaterOrEqual", others, share))
    result = graph.add("Where", shares, for_others, values)
    return graph.add("Where", is_own, for_own, result)


def coupled(graph: GraphBuilder, pairs: str, k: int) -> str:
    """Class probabilities of pairs: Wu, Lin and Weng's iteration, one class in each turn of the loop."""
    Q = coupling_matrices(graph, pairs, k)
    body = GraphBuilder(str(graph.dtype), f"{graph.prefix}loop_")
    turn, going, p, Qp, pQp = (f"{body.prefix}{name}" for name in ("turn", "going", "p", "Qp", "pQp"))
    place = body.add("Reshape", body.add("Mod", turn, body.wholes(k)), body.wholes([1]))
    row = body.add("Squeeze", body.add("Gather", Q, place, axis=1), body.wholes([1]))
    diagonal, own = body.add("Gather", row, place, axis=1), body.add("Gather", Qp, place, axis=1)
    step = body.add("Div", body.add("Sub", pQp, own), diagonal)
    whole = body.add("Add", step, body.reals(1.0))
    unit = body.cast(body.add("Equal", body.wholes(np.arange(k)[None]), place))
    new_p = body.add("Div", body.add("Add", p, body.add("Mul", step, unit)), whole)
    grown = body.add("Add", body.add("Mul", step, diagonal), body.add("Mul", own, body.reals(2.0)))
    top = body.add("Add", pQp, body.add("Mul", step, grown))
    new_pQp = body.add("Div", top, body.add("Mul", whole, whole))
    new_Qp = body.add("Div", body.add("Add", Qp, body.add("Mul", step, row)), whole)
    error = body.add("ReduceMax", body.add("Abs", body.add("Sub", new_Qp, new_pQp)), keepdims=0)
    goes_on = body.add("GreaterOrEqual", error, body.reals(graph.coupling_enough / k))

    zeros = graph.add("ReduceSum", graph.add("Sub", Q, Q), graph.wholes([2]), keepdims=0)
    start_p = graph.add("Add", zeros, graph.reals(1 / k))
    column = graph.add("Unsqueeze", start_p, graph.wholes([2]))
    start_Qp = graph.add("Squeeze", graph.add("MatMul", Q, column), graph.wholes([2]))
    start_pQp = graph.add("ReduceSum", graph.add("Mul", start_p, start_Qp), graph.wholes([1]), keepdims=1)
    helper, real = graph.helper, graph.type_number(graph.dtype)
    info = helper.make_tensor_value_info
    shapes = {p: ["rows", k], Qp: ["rows", k], pQp: ["rows", 1]}
    inputs = [info(turn, graph.type_number(np.int64), []), info(going, graph.type_number(np.bool_), [])]
    inputs += [info(name, real, shape) for name, shape in shapes.items()]
    outputs = [info(goes_on, graph.type_number(np.bool_), [])]
    results = zip((new_p, new_Qp, new_pQp), shapes.values(), strict=True)
    outputs += [info(name, real, shape) for name, shape in results]
    loop = helper.make_graph(body.nodes, f"{graph.prefix}coupling", inputs, outputs, body.constants)
    turns = graph.wholes(max(COUPLING_STEPS, k) * k)
    first = graph.constant(np.array(True))
    return graph.add("Loop", turns, first, start_p, start_Qp, start_pQp, outputs=3, body=loop)


def coupling_matrices(graph: GraphBuilder, pairs: str, k: int) -> str:
    """Q of every row: (rows x classes x classes)."""
    kept = graph.add("Clip", pairs, graph.reals(PAIR_FLOOR), graph.reals(1 - PAIR_FLOOR))
    turned = graph.add("Sub", graph.reals(1.0), kept)
    nothing = graph.add(
        "Slice", graph.add("Sub", kept, kept), graph.wholes([0]), graph.wholes([1]), graph.wholes([1])
    )
    n_pairs = k * (k - 1) // 2
    first, second = class_pairs(k)
    places = np.full((k, k), 2 * n_pairs)
    places[first, second], places[second, first] = np.arange(n_pairs), n_pairs + np.arange(n_pairs)
    r = graph.add("Gather", graph.add("Concat", kept, turned, nothing, axis=1), graph.wholes(places), axis=1)
    products = graph.add("Mul", graph.add("Transpose", r, perm=[0, 2, 1]), r)
    squares = graph.add("ReduceSumSquare", r, graph.wholes([1]), keepdims=1)
    diagonal = graph.add("Mul", squares, graph.reals(np.eye(k)[None]))
    return graph.add("Sub", diagonal, products)
