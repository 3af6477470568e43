"""What TensorFlow's operators can reach. An operator that TensorFlow itself does not register is always foreign.

The table beside this file lists what TensorFlow registers; ``tests/formats/operator_tables.py`` makes it. Those below
reach out of the graph; all others compute, or keep state that lives and dies with the process.
"""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path
from typing import NamedTuple


class Reach(NamedTuple):
    """What a family of operators does beyond computing.

    Attributes:
        rule: The rule that finds them.
        does: What it would do, as the end of a sentence.
        names: The operators.
    """

    rule: str
    does: str
    names: frozenset[str]


def _names(text: str) -> frozenset[str]:
    return frozenset(text.split())


REACHES = (
    Reach(
        "python-operator",
        "calls a Python function of the process that it runs in",
        _names("PyFunc PyFuncStateless EagerPyFunc"),
    ),
    Reach(
        "file-operator",
        "reads files that the graph names",
        _names(
            "ReadFile MatchingFiles MatchingFilesDataset ExperimentalMatchingFilesDataset WholeFileReader"
            " WholeFileReaderV2 TextLineReader TextLineReaderV2 FixedLengthRecordReader FixedLengthRecordReaderV2"
            " TFRecordReader TFRecordReaderV2 LMDBReader CSVDataset CSVDatasetV2"
            " ExperimentalCSVDataset LMDBDataset ExperimentalLMDBDataset FixedLengthRecordDataset"
            " FixedLengthRecordDatasetV2 TFRecordDataset TFRecordDatasetV2 TextLineDataset LoadDataset RecordInput"
            " SqlDataset ExperimentalSqlDataset InitializeTableFromTextFile InitializeTableFromTextFileV2"
            " ListSnapshotChunksDataset SnapshotChunkDataset SnapshotDatasetReader SnapshotNestedDatasetReader"
            " Restore RestoreSlice RestoreV2 DTensorRestoreV2 LoadAndRemapMatrix GenerateVocabRemapping Skipgram"
            " ImmutableConst FixedUnigramCandidateSampler"
        ),
    ),
    Reach(
        "file-operator",
        "writes files that the graph names",
        _names(
            "WriteFile Save SaveSlices SaveV2 MergeV2Checkpoints SaveDataset SaveDatasetV2 DistributedSave DumpTensor"
            " DatasetToTFRecord ExperimentalDatasetToTFRecord CalibrationStatisticsSaver CreateSummaryFileWriter"
            " CreateSummaryDbWriter CacheDataset CacheDatasetV2 SnapshotDataset SnapshotDatasetV2 PrintV2"
            " DebugIdentity DebugIdentityV2 DebugIdentityV3 DebugNanCount DebugNumericSummary DebugNumericSummaryV2"
        ),
    ),
    Reach(
        "file-operator",
        "reads descriptions of messages from a file that the graph names",
        _names("DecodeProtoV2 EncodeProto"),
    ),
    Reach(
        "file-operator",
        "changes how the process reaches its file systems",
        _names("FileSystemSetConfiguration"),
    ),
    Reach(
        "network-operator",
        "talks to other processes or machines that the graph names",
        _names(
            "RpcClient RpcCall RpcServer RpcServerRegister RpcServerStart RpcCheckStatus RpcGetValue RemoteCall Send"
            " Recv _Send _Recv _HostSend _HostRecv DataServiceDataset DataServiceDatasetV2 DataServiceDatasetV3"
            " DataServiceDatasetV4 RegisterDataset RegisterDatasetV2"
        ),
    ),
    Reach(
        "native-operator",
        "calls native code by a name that the graph gives",
        _names("XlaCustomCall XlaCustomCallV2"),
    ),
)

_ADDRESS = re.compile(rb"://")
_DEBUGGERS = _names(
    "DebugIdentity DebugIdentityV2 DebugIdentityV3 DebugNanCount DebugNumericSummary DebugNumericSummaryV2"
)
_DESCRIPTORS = re.compile(rb"^(?!local://|bytes://).")
ONLY_WITH: dict[str, tuple[str, re.Pattern[bytes]]] = {
    "PrintV2": ("output_stream", re.compile(rb"file://")),
    "FixedUnigramCandidateSampler": ("vocab_file", re.compile(rb".", re.DOTALL)),
    "DecodeProtoV2": ("descriptor_source", _DESCRIPTORS),
    "EncodeProto": ("descriptor_source", _DESCRIPTORS),
    **dict.fromkeys(_DEBUGGERS, ("debug_urls", _ADDRESS)),
}
"""Operators that reach out only where this attribute has a text like this, or takes it from whoever calls."""

OPAQUE = {"XlaCallModule": "holds a program of another format (StableHLO), which is not looked into"}
"""Operators whose content is not checked, and why."""


def known(name: str) -> bool:
    """Say whether TensorFlow itself registers an operator."""
    return name in _table()


@cache
def reach(name: str) -> Reach | None:
    """Return what an operator does beyond computing."""
    return next((one for one in REACHES if name in one.names), None)


@cache
def _table() -> frozenset[str]:
    return frozenset(Path(__file__).with_name("operators.txt").read_text(encoding="utf-8").split())
