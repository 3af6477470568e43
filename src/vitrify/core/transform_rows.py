"""The map: every step from a format to another. Adding one is a file in :mod:`vitrify.transforms` and a row here."""

from __future__ import annotations

from typing import TYPE_CHECKING

from vitrify.core.row import Row

if TYPE_CHECKING:
    from vitrify.core.plan import Fidelity


def _road(
    way: str,
    target: str,
    summary: str,
    *,
    extra: str | None = None,
    requires: tuple[str, ...] = (),
    fidelity: Fidelity = "numeric",
    cost: int = 1,
    name: str | None = None,
) -> Row:
    source, destination = way.split(" > ")
    return Row(
        kind="transform",
        name=name or f"{source}-to-{destination}",
        target=f"vitrify.transforms.convert.{target}",
        extra=extra,
        requires=requires,
        source=source,
        destination=destination,
        fidelity=fidelity,
        cost=cost,
        summary=summary,
    )


def _protection(name: str, form: str, target: str, summary: str, *, fidelity: Fidelity = "numeric") -> Row:
    return Row(
        kind="transform",
        name=f"protect-{name}",
        target=f"vitrify.transforms.protect.{target}",
        requires=("onnx",) if form == "onnx" else (),
        source=form,
        destination=form,
        fidelity=fidelity,
        summary=summary,
    )


TRANSFORMS: tuple[Row, ...] = (
    # The live models of estimators: one walk through the model, one graph.
    _road(
        "skops > onnx",
        "sklearn_onnx:SklearnToOnnx",
        "in the source's own precision",
        extra="sklearn",
        requires=("sklearn",),
    ),
    _road(
        "pickle > onnx",
        "sklearn_onnx:SklearnToOnnx",
        "the same, custom steps traced",
        extra="sklearn",
        requires=("sklearn",),
    ),
    _road(
        "xgboost > onnx",
        "xgboost_onnx:XGBoostToOnnx",
        "casts to float32 as XGBoost does",
        extra="xgboost",
        requires=("xgboost",),
    ),
    _road(
        "lightgbm > onnx", "lightgbm_onnx:LightGBMToOnnx", "trees in float64", extra="lightgbm", requires=("lightgbm",)
    ),
    _road(
        "catboost > onnx",
        "catboost_onnx:CatBoostToOnnx",
        "casts to float32, adds in float64",
        extra="catboost",
        requires=("catboost",),
    ),
    _road(
        "statsmodels > onnx",
        "statsmodels_onnx:StatsmodelsToOnnx",
        "the linear predictor and its link",
        extra="statsmodels",
        requires=("statsmodels",),
    ),
    _road(
        "pickle > skops",
        "skops:PickleToSkops",
        "the same estimator as data",
        extra="sklearn",
        requires=("sklearn",),
        fidelity="exact",
    ),
    _road(
        "skops > hybrid",
        "hybrid:ToHybrid",
        "what cannot go to ONNX stays as it is",
        extra="sklearn",
        requires=("sklearn",),
        cost=2,
    ),
    _road(
        "pickle > hybrid",
        "hybrid:ToHybrid",
        "what cannot go to ONNX stays as it is",
        extra="sklearn",
        requires=("sklearn",),
        cost=2,
    ),
    # Trees and tables for other engines.
    _road(
        "skops > treelite",
        "treelite:SklearnToTreelite",
        "forests and boosted trees",
        extra="treelite",
        requires=("treelite", "sklearn"),
    ),
    _road(
        "xgboost > treelite",
        "treelite:XGBoostToTreelite",
        "all trees",
        extra="treelite",
        requires=("treelite", "xgboost"),
    ),
    _road(
        "lightgbm > treelite",
        "treelite:LightGBMToTreelite",
        "all trees",
        extra="treelite",
        requires=("treelite", "lightgbm"),
    ),
    _road(
        "skops > pmml",
        "pmml:EstimatorToPmml",
        "models and pipelines as PMML's own elements",
        extra="sklearn",
        requires=("sklearn",),
    ),
    _road(
        "xgboost > pmml",
        "pmml:EstimatorToPmml",
        "trees in float, sums in double",
        extra="xgboost",
        requires=("xgboost",),
    ),
    _road("lightgbm > pmml", "pmml:EstimatorToPmml", "trees in double", extra="lightgbm", requires=("lightgbm",)),
    _road("catboost > pmml", "pmml:EstimatorToPmml", "trees as PMML's own", extra="catboost", requires=("catboost",)),
    _road("onnx > pfa", "onnx_pfa:OnnxToPfa", "one row at a time, as expressions", cost=2),
    # PyTorch.
    _road(
        "torch-export > onnx",
        "torch_onnx:TorchToOnnx",
        "the dynamo exporter",
        extra="torch",
        requires=("torch", "onnxscript"),
    ),
    _road(
        "torchscript > onnx",
        "torchscript_onnx:TorchScriptToOnnx",
        "the TorchScript exporter",
        extra="torch",
        requires=("torch",),
        cost=2,
    ),
    _road(
        "torch-export > torchscript",
        "torchscript:ExportedToTorchScript",
        "traced and frozen",
        extra="torch",
        requires=("torch",),
    ),
    _road(
        "torch-export > coreml",
        "coreml:TorchToCoreMl",
        "ML programs in float32",
        extra="coreml",
        requires=("torch", "coremltools"),
    ),
    _road(
        "torchscript > coreml",
        "coreml:ScriptToCoreMl",
        "ML programs in float32",
        extra="coreml",
        requires=("torch", "coremltools"),
    ),
    _road(
        "hugging-face > torch-export",
        "hugging_face:HuggingFaceToTorch",
        "the model's forward, exported",
        extra="transformers",
        requires=("transformers", "torch"),
        fidelity="exact",
    ),
    _road(
        "onnx > torch-export",
        "onnx_torch:OnnxToTorch",
        "the graph replayed on PyTorch's operators",
        extra="torch",
        requires=("torch",),
        cost=3,
    ),
    # TensorFlow and Keras.
    _road(
        "keras > saved-model",
        "keras:KerasToSavedModel",
        "Keras' own export, from every backend",
        extra="keras",
        requires=("keras", "tensorflow"),
    ),
    _road(
        "saved-model > onnx",
        "tensorflow_onnx:SavedModelToOnnx",
        "tf2onnx over the frozen graph",
        extra="tensorflow",
        requires=("tensorflow", "tf2onnx"),
        cost=2,
    ),
    _road(
        "saved-model > tflite",
        "tflite:SavedModelToTfLite",
        "TensorFlow's own converter, in float32",
        extra="tensorflow",
        requires=("tensorflow",),
    ),
    _road(
        "tflite > onnx",
        "tflite_onnx:TfLiteToOnnx",
        "tf2onnx over the flat buffer",
        extra="tensorflow",
        requires=("tensorflow", "tf2onnx"),
        cost=2,
    ),
    _road(
        "onnx > saved-model",
        "onnx_tensorflow:OnnxToSavedModel",
        "the graph replayed on TensorFlow's operators",
        extra="tensorflow",
        requires=("tensorflow",),
        cost=3,
    ),
    # JAX.
    _road(
        "jax-export > stablehlo",
        "stablehlo:JaxToStableHlo",
        "the module of the exported function",
        extra="jax",
        requires=("jax",),
        fidelity="exact",
    ),
    _road(
        "jax-export > saved-model",
        "jax_tensorflow:JaxToSavedModel",
        "one XLA call in a TensorFlow graph",
        extra="jax",
        requires=("jax", "tensorflow"),
        cost=2,
    ),
    _road(
        "stablehlo > onnx",
        "stablehlo_onnx:StableHloToOnnx",
        "operation for operation",
        extra="jax",
        requires=("jaxlib",),
        cost=3,
    ),
    _road(
        "jax-export > onnx",
        "stablehlo_onnx:JaxToOnnx",
        "operation for operation",
        extra="jax",
        requires=("jax",),
        cost=2,
    ),
    _road(
        "onnx > jax-export",
        "onnx_jax:OnnxToJax",
        "the graph replayed on JAX's operators",
        extra="jax",
        requires=("jax",),
        cost=3,
    ),
    # ONNX, the hub.
    _road(
        "onnx > onnx",
        "onnx_opset:ChangeOpset",
        "another operator set or IR version",
        requires=("onnx",),
        name="onnx-opset",
    ),
    _road(
        "onnx > ort",
        "ort:OnnxToOrt",
        "ONNX Runtime's own format, portable optimisations only",
        requires=("onnxruntime",),
    ),
    _road(
        "onnx > openvino",
        "openvino:OnnxToOpenVino",
        "weights as they are, not compressed",
        extra="openvino",
        requires=("openvino",),
    ),
    # Weights alone: how to compute with them is lost.
    _road(
        "torch-export > safetensors",
        "weights:TorchWeights",
        "the state's tensors",
        extra="torch",
        requires=("torch",),
        fidelity="lossy",
    ),
    _road(
        "hugging-face > safetensors",
        "weights:HuggingFaceWeights",
        "the state's tensors",
        extra="transformers",
        requires=("transformers",),
        fidelity="lossy",
    ),
    _road(
        "keras > safetensors",
        "weights:KerasWeights",
        "the variables",
        extra="keras",
        requires=("keras",),
        fidelity="lossy",
    ),
    _road(
        "saved-model > safetensors",
        "weights:TensorFlowWeights",
        "the variables",
        extra="tensorflow",
        requires=("tensorflow",),
        fidelity="lossy",
    ),
    _road("onnx > safetensors", "weights:OnnxWeights", "the initialisers", requires=("onnx",), fidelity="lossy"),
    # Protection: from a format to itself, so never on a road; :mod:`vitrify.transforms.protect` takes these steps.
    _protection("onnx-names", "onnx", "obfuscation:ObfuscateOnnx", "names that say nothing", fidelity="exact"),
    _protection("onnx-watermark", "onnx", "watermark:MarkOnnx", "an id in the weights"),
    _protection("safetensors-watermark", "safetensors", "watermark:MarkSafetensors", "an id in the weights"),
)
