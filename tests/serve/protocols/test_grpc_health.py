"""gRPC's health and reflection, asked over a real channel."""

from __future__ import annotations

import grpc
import pytest
from google.protobuf import descriptor_pb2, descriptor_pool
from grpc_rig import SECONDS, LocalEngine, serving

from vitrify.serve.protocols import health_grpc, reflection_grpc
from vitrify.serve.protocols._messages import messages

OIP = "inference.GRPCInferenceService"
SAID = messages("health")


@pytest.fixture(scope="module")
def engine():
    return LocalEngine()


@pytest.fixture(scope="module")
def channel(engine):
    methods = (*health_grpc.methods(engine, services=[OIP]), *reflection_grpc.methods(services=[OIP]))
    with serving(methods) as address, grpc.insecure_channel(address) as found:
        yield found


def check(channel, service):
    call = channel.unary_unary(
        "/grpc.health.v1.Health/Check",
        SAID.HealthCheckRequest.SerializeToString,
        SAID.HealthCheckResponse.FromString,
    )
    status = call(SAID.HealthCheckRequest(service=service), timeout=SECONDS).status
    return SAID.HealthCheckResponse.ServingStatus.Name(status)


def watch(channel, service):
    call = channel.unary_stream(
        "/grpc.health.v1.Health/Watch",
        SAID.HealthCheckRequest.SerializeToString,
        SAID.HealthCheckResponse.FromString,
    )
    return call(SAID.HealthCheckRequest(service=service), timeout=SECONDS)


@pytest.mark.parametrize("service", ["", OIP, "grpc.health.v1.Health"])
def test_the_server_is_as_healthy_as_its_engine(channel, engine, service):
    engine.ready = False
    assert check(channel, service) == "NOT_SERVING"
    engine.ready = True
    assert check(channel, service) == "SERVING"


def test_a_service_that_is_not_there(channel):
    with pytest.raises(grpc.RpcError) as caught:
        check(channel, "nope")
    assert caught.value.code() is grpc.StatusCode.NOT_FOUND
    status = SAID.HealthCheckResponse.ServingStatus
    assert [one.status for one in watch(channel, "nope")] == [status.Value("SERVICE_UNKNOWN")]


def test_a_watch_sees_changes_and_ends_with_the_server(channel, engine):
    engine.ready = False
    seen = watch(channel, "")
    assert next(seen).status == 2
    engine.ready = True
    assert next(seen).status == 1
    engine.ready = False
    assert [one.status for one in seen] == [2]
    engine.ready = True


def reflected(channel, file, **asked):
    said = messages(file)
    call = channel.stream_stream(
        f"/grpc.{file.replace('_', '.') if '_' in file else 'reflection.v1'}.ServerReflection/ServerReflectionInfo",
        said.ServerReflectionRequest.SerializeToString,
        said.ServerReflectionResponse.FromString,
    )
    (found,) = call(iter([said.ServerReflectionRequest(**asked)]), timeout=SECONDS)
    return found


@pytest.mark.parametrize("file", ["reflection", "reflection_v1alpha"])
def test_the_services_are_listed(channel, file):
    found = reflected(channel, file, list_services="")
    assert [one.name for one in found.list_services_response.service] == [
        "grpc.reflection.v1.ServerReflection",
        "grpc.reflection.v1alpha.ServerReflection",
        OIP,
    ]


@pytest.mark.parametrize(
    ("asked", "message"),
    [
        ({"file_containing_symbol": OIP}, "inference.ModelInferRequest"),
        ({"file_containing_symbol": "inference.ModelInferRequest"}, "inference.InferParameter"),
        ({"file_by_filename": "tensorflow_serving.proto"}, "tensorflow.TensorProto"),
        ({"file_containing_symbol": "tensorflow.serving.PredictionService"}, "google.protobuf.Any"),
    ],
)
def test_files_come_with_all_that_they_need(channel, asked, message):
    found = reflected(channel, "reflection", **asked)
    files = [
        descriptor_pb2.FileDescriptorProto.FromString(one)
        for one in found.file_descriptor_response.file_descriptor_proto
    ]
    pool = descriptor_pool.DescriptorPool()
    for one in reversed(files):
        pool.Add(one)
    assert pool.FindMessageTypeByName(message).full_name == message


@pytest.mark.parametrize(
    ("asked", "code"),
    [
        ({"file_containing_symbol": "nope"}, 5),
        ({"file_by_filename": "nope"}, 5),
        ({"all_extension_numbers_of_type": "x"}, 12),
        ({}, 12),
    ],
)
def test_what_cannot_be_told_is_an_error_in_the_stream(channel, asked, code):
    found = reflected(channel, "reflection", **asked)
    assert found.error_response.error_code == code
    assert found.error_response.error_message
