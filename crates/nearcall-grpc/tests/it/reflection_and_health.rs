//! What a gateway says of itself and of the servers behind it.

use std::time::Duration;

use nearcall::server::Health;
use tonic::{Code, Request};
use tonic_health::pb::HealthCheckRequest;
use tonic_health::pb::health_check_response::ServingStatus;
use tonic_health::pb::health_client::HealthClient;
use tonic_reflection::pb::v1::server_reflection_client::ServerReflectionClient;
use tonic_reflection::pb::v1::server_reflection_request::MessageRequest;
use tonic_reflection::pb::v1::server_reflection_response::MessageResponse;
use tonic_reflection::pb::v1::{ExtensionRequest, ServerReflectionRequest};
use tonic_reflection::pb::v1alpha;

use crate::stage::*;

fn asked(service: &str) -> HealthCheckRequest {
    HealthCheckRequest { service: service.to_owned() }
}

#[timed]
fn health_is_that_of_the_servers() {
    let stage = Stage::new();
    let mut health = HealthClient::new(stage.channel.clone());
    let mut check = |service: &str| {
        let checked = stage.runtime.block_on(health.check(asked(service)));
        checked.map(|reply| reply.into_inner().status())
    };
    for name in ["", STREAMS.name, ECHO.name] {
        assert_eq!(check(name).unwrap(), ServingStatus::Serving, "{name}");
    }
    for name in ["nearcall.v1.Server", "a.B"] {
        assert_eq!(check(name).unwrap_err().code(), Code::NotFound, "{name}");
    }
    let mut watching = HealthClient::new(stage.channel.clone());
    let mut watch =
        |name| stage.runtime.block_on(watching.watch(asked(name))).unwrap().into_inner();
    let (mut streams, mut unknown) = (watch(STREAMS.name), watch("a.B"));
    let next = |it: &mut tonic::Streaming<tonic_health::pb::HealthCheckResponse>| {
        let message = async { tokio::time::timeout(Duration::from_secs(10), it.message()).await };
        stage.runtime.block_on(message).unwrap().unwrap().map(|it| it.status())
    };
    assert_eq!(next(&mut streams), Some(ServingStatus::Serving));
    assert_eq!(next(&mut unknown), Some(ServingStatus::ServiceUnknown));
    assert!(stage.server.set_health(STREAMS.name, Health::NotServing));
    assert_eq!(next(&mut streams), Some(ServingStatus::NotServing));
    assert_eq!(check(STREAMS.name).unwrap(), ServingStatus::NotServing);
    assert_eq!(check("").unwrap(), ServingStatus::NotServing);
    assert_eq!(check(ECHO.name).unwrap(), ServingStatus::Serving);
    stage.server.stop().unwrap();
    assert_eq!(check(ECHO.name).unwrap(), ServingStatus::NotServing);
    let (_server, _) = serve(&stage.address);
    assert_eq!(next(&mut streams), Some(ServingStatus::Serving));
    assert!(stage.gateway.stop(), "who watches does not keep the gateway");
    assert_eq!(next_of_ended(&stage.runtime, streams), ServingStatus::NotServing);
}

fn next_of_ended(
    runtime: &tokio::runtime::Runtime,
    mut watched: tonic::Streaming<tonic_health::pb::HealthCheckResponse>,
) -> ServingStatus {
    let last = runtime.block_on(watched.message()).unwrap().unwrap().status();
    assert!(runtime.block_on(watched.message()).unwrap().is_none());
    last
}

#[timed]
fn descriptions_are_those_of_the_servers() {
    let stage = Stage::new();
    let mut client = ServerReflectionClient::new(stage.channel.clone());
    let mut ask = |request: MessageRequest| {
        let host = "here".to_owned();
        let request = ServerReflectionRequest { host, message_request: Some(request) };
        let requests = futures_util::stream::iter([request]);
        stage.runtime.block_on(async {
            let mut replies =
                client.server_reflection_info(Request::new(requests)).await.unwrap().into_inner();
            replies.message().await.unwrap().unwrap().message_response.unwrap()
        })
    };
    let MessageResponse::ListServicesResponse(services) =
        ask(MessageRequest::ListServices(String::new()))
    else {
        panic!("no list");
    };
    let names: Vec<_> = services.service.into_iter().map(|it| it.name).collect();
    assert_eq!(names[..3], [ECHO.name, STREAMS.name, "grpc.health.v1.Health"]);
    assert_eq!(names.len(), 5);
    let file = |response: MessageResponse| match response {
        MessageResponse::FileDescriptorResponse(file) => {
            let file = &file.file_descriptor_proto[0][..];
            <nearcall::prost_types::FileDescriptorProto as prost::Message>::decode(file)
                .unwrap()
                .name()
                .to_owned()
        }
        other => format!("{other:?}"),
    };
    for (symbol, name) in [
        (STREAMS.name, "streams.proto"),
        ("streams.v1.Streams.Count", "streams.proto"),
        ("streams.v1.Item", "streams.proto"),
        ("streams.v1.Item.number", "streams.proto"),
        ("google.protobuf.Empty", "google/protobuf/empty.proto"),
        ("google.protobuf.MethodOptions", "google/protobuf/descriptor.proto"),
        ("google.protobuf.FieldDescriptorProto.TYPE_BOOL", "google/protobuf/descriptor.proto"),
        ("nearcall.oneway", "nearcall/options.proto"),
        ("grpc.health.v1.Health", "health.proto"),
        ("grpc.reflection.v1alpha.ServerReflection", "reflection_v1alpha.proto"),
    ] {
        let found = file(ask(MessageRequest::FileContainingSymbol(symbol.to_owned())));
        assert!(found.ends_with(name), "{symbol}: {found}");
        let again = file(ask(MessageRequest::FileByFilename(found.clone())));
        assert_eq!(again, found);
    }
    for symbol in ["", "nearcall.v1.Server", "streams.v1.Streams.Nothing", "streams.v1"] {
        let found = file(ask(MessageRequest::FileContainingSymbol(symbol.to_owned())));
        assert!(found.contains("error_code: 5"), "{symbol}: {found}");
    }
    let extension = ExtensionRequest {
        containing_type: "google.protobuf.MethodOptions".into(),
        extension_number: 51_001,
    };
    let found = file(ask(MessageRequest::FileContainingExtension(extension)));
    assert_eq!(found, "nearcall/options.proto");
    let options = "google.protobuf.MethodOptions".to_owned();
    let numbers = format!("{:?}", ask(MessageRequest::AllExtensionNumbersOfType(options)));
    assert!(numbers.contains("51001") && numbers.contains("51002"), "{numbers}");
}

#[timed]
fn the_older_reflection_answers_as_well() {
    let stage = Stage::new();
    let mut client =
        v1alpha::server_reflection_client::ServerReflectionClient::new(stage.channel.clone());
    let request = v1alpha::ServerReflectionRequest {
        host: String::new(),
        message_request: Some(
            v1alpha::server_reflection_request::MessageRequest::FileContainingSymbol(
                STREAMS.name.to_owned(),
            ),
        ),
    };
    let replies = stage.runtime.block_on(async {
        let requests = futures_util::stream::iter([request]);
        let mut replies = client.server_reflection_info(requests).await.unwrap().into_inner();
        replies.message().await.unwrap().unwrap()
    });
    let found = format!("{:?}", replies.message_response);
    assert!(found.contains("FileDescriptorResponse"), "{found}");
}
