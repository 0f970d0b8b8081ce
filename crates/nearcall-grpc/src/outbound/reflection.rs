//! The description of an interface, asked of a gRPC server by reflection.
//!
//! **Invariants:** what a server says is bounded: files, bytes, and the time of the caller.
//! **Not here:** what is made of it (`nearcall::dynamic`).

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use futures_util::stream;
use nearcall::Status;
use nearcall::dynamic::interface_from_descriptor_set;
use nearcall::prost::{Message as _, encoding};
use nearcall::prost_types::FileDescriptorProto;
use nearcall::service::Interface;
use tokio::sync::mpsc;
use tonic::transport::Channel;
use tonic_reflection::pb::v1::ServerReflectionRequest;
use tonic_reflection::pb::v1::server_reflection_client::ServerReflectionClient;
use tonic_reflection::pb::v1::server_reflection_request::MessageRequest;
use tonic_reflection::pb::v1::server_reflection_response::MessageResponse;

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
    let failed = |status| failure(&format!("describe {interface}"), &status);
    let (ask, asked) = mpsc::channel::<ServerReflectionRequest>(1);
    let mut client = ServerReflectionClient::new(channel);
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
            let opened = client.server_reflection_info(stream).await.map_err(failed)?;
            answers = Some(opened.into_inner());
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
    let failed = |status| failure("list its interfaces", &status);
    let question = Some(MessageRequest::ListServices(String::new()));
    let request = ServerReflectionRequest { host: String::new(), message_request: question };
    let mut client = ServerReflectionClient::new(channel);
    let asked = client.server_reflection_info(stream::iter([request])).await.map_err(failed)?;
    let mut answers = asked.into_inner();
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

impl futures_core::Stream for Questions {
    type Item = ServerReflectionRequest;

    fn poll_next(
        self: std::pin::Pin<&mut Self>,
        context: &mut std::task::Context<'_>,
    ) -> std::task::Poll<Option<ServerReflectionRequest>> {
        self.get_mut().0.poll_recv(context)
    }
}
