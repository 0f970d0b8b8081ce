//! The description of an interface, asked of a gRPC server by reflection.
//!
//! A server that has no version 1 of the service is asked by v1alpha, whose bytes are the same.
//!
//! **Invariants:** what a server says is bounded: files, bytes, and the time of the caller.
//! **Not here:** what is made of it (`nearcall::dynamic`).

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use futures_core::Stream;
use futures_util::stream;
use http::uri::PathAndQuery;
use nearcall::dynamic::interface_from_descriptor_set;
use nearcall::prost::{Message as _, encoding};
use nearcall::prost_types::FileDescriptorProto;
use nearcall::service::Interface;
use nearcall::{Code, Status};
use tokio::sync::mpsc;
use tonic::Streaming;
use tonic::client::Grpc;
use tonic::transport::Channel;
use tonic_prost::ProstCodec;
use tonic_reflection::pb::v1::server_reflection_request::MessageRequest;
use tonic_reflection::pb::v1::server_reflection_response::MessageResponse;
use tonic_reflection::pb::v1::{ServerReflectionRequest, ServerReflectionResponse};

use super::forward::{has_not_begun, is_of_connection};
use super::remote::chain_of;
use crate::convert;

/// Most files of one interface and its imports.
const FILES_MAX: usize = 512;

/// Asks a server for the description of an interface.
///
/// # Errors
///
/// `UNIMPLEMENTED`: the server has no reflection, or no such interface. `UNAVAILABLE`: the server
/// cannot be reached, or its connection has ended.
pub(super) async fn describe(
    channel: Channel,
    interface: &str,
) -> Result<&'static Interface, Status> {
    by_either(|service| describe_by(service, channel.clone(), interface)).await
}

/// Asks by version 1 of the service, and by v1alpha where the server has no such one.
async fn by_either<T, F: Future<Output = Result<T, Status>>>(
    ask: impl Fn(&'static str) -> F,
) -> Result<T, Status> {
    match ask(V1).await {
        Err(first) if first.code() == Code::Unimplemented => ask(V1_ALPHA).await.map_err(|_| first),
        answer => answer,
    }
}

async fn describe_by(
    service: &'static str,
    channel: Channel,
    interface: &str,
) -> Result<&'static Interface, Status> {
    let failed = |status| failure(&format!("describe {interface}"), &status);
    let (ask, asked) = mpsc::channel::<ServerReflectionRequest>(1);
    let first = MessageRequest::FileContainingSymbol(interface.to_owned());
    let mut wanted = VecDeque::from([first]);
    let stream = Questions(asked);
    // The first question goes before the answer to the call is waited for: servers wait for it.
    let mut answers = None;
    let (mut files, mut named) = (BTreeMap::new(), BTreeSet::new());
    let mut stream = Some(stream);
    while let Some(question) = wanted.pop_front() {
        let request =
            ServerReflectionRequest { host: String::new(), message_request: Some(question) };
        let sent = ask.send(request).await;
        sent.map_err(|_| Status::unavailable("the server has ended its description"))?;
        if let Some(stream) = stream.take() {
            let opened = open(service, channel.clone(), stream).await;
            answers = Some(opened.map_err(failed)?);
        }
        let Some(answers) = &mut answers else { break };
        let answer = answers.message().await.map_err(failed)?;
        for bytes in files_in(answer.and_then(|answer| answer.message_response), interface)? {
            let file = FileDescriptorProto::decode(&bytes[..]);
            let file =
                file.map_err(|error| Status::internal(format!("a file of {interface}: {error}")))?;
            for import in &file.dependency {
                if named.insert(import.clone()) && !is_built_in(import) {
                    wanted.push_back(MessageRequest::FileByFilename(import.clone()));
                }
            }
            named.insert(file.name().to_owned());
            files.insert(file.name().to_owned(), bytes);
        }
        wanted.retain(|it| match it {
            MessageRequest::FileByFilename(name) => !files.contains_key(name),
            _ => true,
        });
        if files.len() > FILES_MAX {
            let text = format!("{interface} is described by more than {FILES_MAX} files");
            return Err(Status::resource_exhausted(text));
        }
    }
    // Reads the end, as a call that is given up counts as cancelled there.
    drop(ask);
    if let Some(mut answers) = answers {
        answers.message().await.map_err(failed)?;
    }
    // Not as decoded files, which lack the options of nearcall.
    let (files, mut set) = (Vec::from_iter(files.into_values()), Vec::new());
    encoding::bytes::encode_repeated(FILE_TAG, &files, &mut set);
    interface_from_descriptor_set(&set, interface)
}

/// Asks a server for the names of its interfaces, without those that each has for its own.
///
/// # Errors
///
/// `UNIMPLEMENTED`: the server has no reflection.
pub(super) async fn list(channel: Channel) -> Result<Vec<String>, Status> {
    by_either(|service| list_by(service, channel.clone())).await
}

async fn list_by(service: &'static str, channel: Channel) -> Result<Vec<String>, Status> {
    let failed = |status| failure("list its interfaces", &status);
    let question = Some(MessageRequest::ListServices(String::new()));
    let request = ServerReflectionRequest { host: String::new(), message_request: question };
    let asked = open(service, channel, stream::iter([request])).await;
    let mut answers = asked.map_err(failed)?;
    let answer = answers.message().await.map_err(failed)?;
    answers.message().await.map_err(failed)?;
    let Some(MessageResponse::ListServicesResponse(list)) =
        answer.and_then(|answer| answer.message_response)
    else {
        return Err(Status::internal("the server answers with something else than its interfaces"));
    };
    let names = list.service.into_iter().map(|service| service.name);
    Ok(names.filter(|name| !crate::is_reserved(name)).collect())
}

/// Opens a call of the reflection service.
async fn open(
    service: &'static str,
    channel: Channel,
    questions: impl Stream<Item = ServerReflectionRequest> + Send + 'static,
) -> Result<Streaming<ServerReflectionResponse>, tonic::Status> {
    let mut client = Grpc::new(channel);
    client.ready().await.map_err(|error| tonic::Status::from_error(error.into()))?;
    let (path, request) = (PathAndQuery::from_static(service), tonic::Request::new(questions));
    let opened = client.streaming(request, path, ProstCodec::default()).await?;
    Ok(opened.into_inner())
}

/// The method of the service, by version.
const V1: &str = "/grpc.reflection.v1.ServerReflection/ServerReflectionInfo";
const V1_ALPHA: &str = "/grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo";

/// The number of the field of files in a descriptor set.
const FILE_TAG: u32 = 1;

/// Returns why a server does not do something, with the causes on the way to it.
fn failure(what: &str, status: &tonic::Status) -> Status {
    let why = std::error::Error::source(status).map_or_else(String::new, chain_of);
    if has_not_begun(status) || is_of_connection(status) {
        return Status::unavailable(format!("the server does not {what}: {why}"));
    }
    let (status, gap) = (convert::from_grpc(status), if why.is_empty() { "" } else { ": " });
    let text = format!("the server does not {what}: {}{gap}{why}", status.message());
    Status::new(status.code(), text)
}

/// Returns whether every reflection library has the file.
fn is_built_in(file: &str) -> bool {
    file == "google/protobuf/descriptor.proto"
}

fn files_in(answer: Option<MessageResponse>, interface: &str) -> Result<Vec<Vec<u8>>, Status> {
    match answer {
        Some(MessageResponse::FileDescriptorResponse(files)) => Ok(files.file_descriptor_proto),
        Some(MessageResponse::ErrorResponse(error)) => {
            let text = format!("the server does not describe {interface}: {}", error.error_message);
            Err(match tonic::Code::from_i32(error.error_code) {
                // A gateway whose server is away.
                tonic::Code::Unavailable => Status::unavailable(text),
                _ => Status::unimplemented(text),
            })
        }
        // It ends its streams when it stops.
        _ => {
            let text = format!("the server does not describe {interface}: it has ended the call");
            Err(Status::unavailable(text))
        }
    }
}

/// The questions, as tonic sends them.
struct Questions(mpsc::Receiver<ServerReflectionRequest>);

impl Stream for Questions {
    type Item = ServerReflectionRequest;

    fn poll_next(
        self: std::pin::Pin<&mut Self>,
        context: &mut std::task::Context<'_>,
    ) -> std::task::Poll<Option<ServerReflectionRequest>> {
        self.get_mut().0.poll_recv(context)
    }
}
