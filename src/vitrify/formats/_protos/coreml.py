"""The messages of Core ML: models and their descriptions, neural networks, and programs of MIL.

Source: https://github.com/apple/coremltools/tree/main/mlmodel/format (Model.proto, FeatureTypes.proto,
NeuralNetwork.proto, MIL.proto).
"""

from __future__ import annotations

from vitrify.reading.protobuf import Schema


def _numbers(text: str) -> dict[str, int]:
    return {name: int(number) for name, _, number in (one.partition("=") for one in text.split())}


KINDS = _numbers(
    "pipelineClassifier=200 pipelineRegressor=201 pipeline=202 glmRegressor=300 supportVectorRegressor=301 "
    "treeEnsembleRegressor=302 neuralNetworkRegressor=303 bayesianProbitRegressor=304 glmClassifier=400 "
    "supportVectorClassifier=401 treeEnsembleClassifier=402 neuralNetworkClassifier=403 "
    "kNearestNeighborsClassifier=404 neuralNetwork=500 itemSimilarityRecommender=501 mlProgram=502 customModel=555 "
    "linkedModel=556 classConfidenceThresholding=560 oneHotEncoder=600 imputer=601 featureVectorizer=602 "
    "dictVectorizer=603 scaler=604 categoricalMapping=606 normalizer=607 arrayFeatureExtractor=609 "
    "nonMaximumSuppression=610 identity=900 textClassifier=2000 wordTagger=2001 visionFeaturePrint=2002 "
    "soundAnalysisPreprocessing=2003 gazetteer=2004 wordEmbedding=2005 audioFeaturePrint=2006 serializedModel=3000 "
)
"""What a model can be, and the number of its field."""

LAYERS = _numbers(
    "convolution=100 pooling=120 activation=130 innerProduct=140 embedding=150 batchnorm=160 mvn=165 "
    "l2normalize=170 softmax=175 lrn=180 crop=190 padding=200 upsample=210 resizeBilinear=211 cropResize=212 "
    "unary=220 add=230 multiply=231 average=240 scale=245 bias=250 max=260 min=261 dot=270 reduce=280 "
    "loadConstant=290 reshape=300 flatten=301 permute=310 concat=320 split=330 sequenceRepeat=340 "
    "reorganizeData=345 slice=350 simpleRecurrent=400 gru=410 uniDirectionalLSTM=420 biDirectionalLSTM=430 "
    "custom=500 copy=600 branch=605 loop=615 loopBreak=620 loopContinue=625 rangeStatic=635 rangeDynamic=640 "
    "clip=660 ceil=665 floor=670 sign=680 round=685 exp2=700 sin=710 cos=715 tan=720 asin=730 acos=735 atan=740 "
    "sinh=750 cosh=755 tanh=760 asinh=770 acosh=775 atanh=780 erf=790 gelu=795 equal=815 notEqual=820 lessThan=825 "
    "lessEqual=827 greaterThan=830 greaterEqual=832 logicalOr=840 logicalXor=845 logicalNot=850 logicalAnd=855 "
    "modBroadcastable=865 minBroadcastable=870 maxBroadcastable=875 addBroadcastable=880 powBroadcastable=885 "
    "divideBroadcastable=890 floorDivBroadcastable=895 multiplyBroadcastable=900 subtractBroadcastable=905 tile=920 "
    "stack=925 gather=930 scatter=935 gatherND=940 scatterND=945 softmaxND=950 gatherAlongAxis=952 "
    "scatterAlongAxis=954 reverse=960 reverseSeq=965 splitND=975 concatND=980 transpose=985 sliceStatic=995 "
    "sliceDynamic=1000 slidingWindows=1005 topK=1015 argMin=1020 argMax=1025 embeddingND=1040 batchedMatmul=1045 "
    "getShape=1065 loadConstantND=1070 fillLike=1080 fillStatic=1085 fillDynamic=1090 broadcastToLike=1100 "
    "broadcastToStatic=1105 broadcastToDynamic=1110 squeeze=1120 expandDims=1125 flattenTo2D=1130 reshapeLike=1135 "
    "reshapeStatic=1140 reshapeDynamic=1145 rankPreservingReshape=1150 constantPad=1155 randomNormalLike=1170 "
    "randomNormalStatic=1175 randomNormalDynamic=1180 randomUniformLike=1190 randomUniformStatic=1195 "
    "randomUniformDynamic=1200 randomBernoulliLike=1210 randomBernoulliStatic=1215 randomBernoulliDynamic=1220 "
    "categoricalDistribution=1230 reduceL1=1250 reduceL2=1255 reduceMax=1260 reduceMin=1265 reduceSum=1270 "
    "reduceProd=1275 reduceMean=1280 reduceLogSum=1285 reduceSumSquare=1290 reduceLogSumExp=1295 whereNonZero=1313 "
    "matrixBandPart=1315 lowerTriangular=1320 upperTriangular=1325 whereBroadcastable=1330 layerNormalization=1350 "
    "NonMaximumSuppression=1400 oneHot=1450 cumSum=1455 clampedReLU=1460 argSort=1461 pooling3d=1465 "
    "globalPooling3d=1466 sliceBySize=1470 convolution3d=1471 "
)
"""What a layer of a neural network can be, and the number of its field."""

WEIGHTS: dict[str, dict[str, int]] = {
    "convolution": {"weights": 90, "bias": 91},
    "innerProduct": {"weights": 20, "bias": 21},
    "embedding": {"weights": 20, "bias": 21},
    "batchnorm": {"gamma": 15, "beta": 16, "mean": 17, "variance": 18},
    "scale": {"scale": 2, "bias": 5},
    "bias": {"bias": 2},
    "loadConstant": {"data": 2},
    "simpleRecurrent": {"weightMatrix": 30, "recursionMatrix": 31, "biasVector": 32},
    "gru": {
        **{f"{gate}GateWeightMatrix": 30 + index for index, gate in enumerate(("update", "reset", "output"))},
        **{f"{gate}GateRecursionMatrix": 50 + index for index, gate in enumerate(("update", "reset", "output"))},
        **{f"{gate}GateBiasVector": 70 + index for index, gate in enumerate(("update", "reset", "output"))},
    },
    "embeddingND": {"weights": 20, "bias": 21},
    "batchedMatmul": {"weights": 8, "bias": 9},
    "loadConstantND": {"data": 2},
    "layerNormalization": {"gamma": 3, "beta": 4},
    "convolution3d": {"weights": 60, "bias": 61},
}
"""The fields of a layer that are its weights; those of LSTM layers lie deeper and are not listed."""

TYPES = {
    1: "bool", 2: "string", 10: "float16", 11: "float32", 12: "float64", 13: "bfloat16", 21: "int8", 22: "int16",
    23: "int32", 24: "int64", 25: "int4", 31: "uint8", 32: "uint16", 33: "uint32", 34: "uint64", 35: "uint4",
    36: "uint2", 37: "uint1", 38: "uint6", 39: "uint3", 40: "float8e4m3fn", 41: "float8e5m2",
}  # fmt: skip
"""Element types of a program."""

BITS = {
    "bool": 8, "float16": 16, "float32": 32, "float64": 64, "bfloat16": 16, "int8": 8, "int16": 16, "int32": 32,
    "int64": 64, "int4": 4, "uint8": 8, "uint16": 16, "uint32": 32, "uint64": 64, "uint4": 4, "uint2": 2, "uint1": 1,
    "uint6": 6, "uint3": 3, "float8e4m3fn": 8, "float8e5m2": 8,
}  # fmt: skip

ARRAYS = {65568: "float32", 65600: "float64", 131104: "int32", 65552: "float16", 131080: "int8"}
"""Element types of a model's inputs and outputs."""

COLOURS = {10: "grayscale", 20: "rgb", 30: "bgr", 40: "grayscale float16"}

_MODELS = {
    "pipelineClassifier": "PipelineHolder",
    "pipelineRegressor": "PipelineHolder",
    "pipeline": "Pipeline",
    "neuralNetworkRegressor": "Network",
    "neuralNetworkClassifier": "Network",
    "neuralNetwork": "Network",
    "glmClassifier": "Classifier",
    "supportVectorClassifier": "Classifier",
    "treeEnsembleClassifier": "Classifier",
    "kNearestNeighborsClassifier": "Classifier",
    "mlProgram": "Program",
    "customModel": "Custom",
    "linkedModel": "Linked",
}
_LAYERS = {"custom": "Custom", "branch": "Branch", "loop": "Loop"}


def _choice(numbers: dict[str, int], messages: dict[str, str]) -> dict[str, str]:
    return {name: f"{number} {messages.get(name, '?blob')}" for name, number in numbers.items()}


SCHEMA = Schema(
    "coreml",
    {
        "Model": {
            "specificationVersion": "1 int32",
            "description": "2 Description",
            "isUpdatable": "10 bool",
            **_choice(KINDS, _MODELS),
        },
        "Description": {
            "input": "1 *Feature",
            "output": "10 *Feature",
            "state": "13 *Feature",
            "predictedFeatureName": "11 string",
            "metadata": "100 Metadata",
        },
        "Metadata": {
            "shortDescription": "1 string",
            "versionString": "2 string",
            "author": "3 string",
            "license": "4 string",
            "userDefined": "100 *TextEntry",
        },
        "TextEntry": {"key": "1 string", "value": "2 string"},
        "Feature": {"name": "1 string", "shortDescription": "2 string", "type": "3 FeatureType"},
        "FeatureType": {
            "int64Type": "1 ?bytes",
            "doubleType": "2 ?bytes",
            "stringType": "3 ?bytes",
            "imageType": "4 Image",
            "multiArrayType": "5 Array",
            "dictionaryType": "6 ?bytes",
            "sequenceType": "7 ?bytes",
            "stateType": "8 State",
        },
        "Image": {"width": "1 int64", "height": "2 int64", "colorSpace": "3 int32"},
        "Array": {"shape": "1 *int64", "dataType": "2 int32"},
        "State": {"arrayType": "1 Array"},
        "PipelineHolder": {"pipeline": "1 Pipeline"},
        "Pipeline": {"models": "1 *Model", "names": "2 *string"},
        "Classifier": {"stringClassLabels": "100 TextVector", "int64ClassLabels": "101 IntegerVector"},
        "TextVector": {"vector": "1 *string"},
        "IntegerVector": {"vector": "1 *int64"},
        "Custom": {"className": "10 string", "description": "40 string"},
        "Linked": {"linkedModelFile": "1 LinkedFile"},
        "LinkedFile": {"linkedModelFileName": "1 TextParameter", "linkedModelSearchPath": "2 TextParameter"},
        "TextParameter": {"defaultValue": "1 string"},
        "Network": {
            "layers": "1 *Layer",
            "stringClassLabels": "100 TextVector",
            "int64ClassLabels": "101 IntegerVector",
        },
        "Layer": {"name": "1 string", "input": "2 *string", "output": "3 *string", **_choice(LAYERS, _LAYERS)},
        "Branch": {"ifBranch": "1 Network", "elseBranch": "2 Network"},
        "Loop": {"conditionNetwork": "3 Network", "bodyNetwork": "4 Network"},
        "Weights": {
            "floatValue": "1 blob",
            "float16Value": "2 blob",
            "rawValue": "30 blob",
            "int8RawValue": "31 blob",
            "quantization": "40 Quantization",
        },
        "Quantization": {"numberOfBits": "1 int64"},
        "Program": {"version": "1 int64", "functions": "2 *FunctionEntry", "docString": "3 string"},
        "FunctionEntry": {"key": "1 string", "value": "2 Function"},
        "Function": {"inputs": "1 *Named", "opset": "2 string", "block_specializations": "3 *BlockEntry"},
        "BlockEntry": {"key": "1 string", "value": "2 Block"},
        "Block": {"inputs": "1 *Named", "outputs": "2 *string", "operations": "3 *Operation"},
        "Operation": {
            "type": "1 string",
            "inputs": "2 *ArgumentEntry",
            "outputs": "3 *Named",
            "blocks": "4 *Block",
            "attributes": "5 *ValueEntry",
        },
        "ArgumentEntry": {"key": "1 string", "value": "2 Argument"},
        "Argument": {"arguments": "1 *Binding"},
        "Binding": {"name": "1 string", "value": "2 Value"},
        "Named": {"name": "1 string", "type": "2 ValueType"},
        "ValueEntry": {"key": "1 string", "value": "2 Value"},
        "ValueType": {"tensorType": "1 TensorType", "stateType": "5 StateType"},
        "StateType": {"wrappedType": "1 ValueType"},
        "TensorType": {"dataType": "1 int32", "rank": "2 int64", "dimensions": "3 *Dimension"},
        "Dimension": {"constant": "1 Constant"},
        "Constant": {"size": "1 uint64"},
        "Value": {"type": "2 ValueType", "immediateValue": "3 ?blob", "blobFileValue": "5 BlobFile"},
        "BlobFile": {"fileName": "1 string", "offset": "2 uint64"},
    },
)
