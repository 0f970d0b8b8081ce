//! `grpc.reflection.v1` and its older name `v1alpha`: what the exposed interfaces look like.
//!
//! **Invariants:** the answers come from the servers' own descriptions; one that is away has none.
//! **Not here:** reading descriptors (`prost_reflect`).

use std::collections::BTreeSet;
use std::pin::Pin;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use futures_core::Stream;
use futures_util::stream;
use nearcall::service::Interface;
use prost_reflect::{DescriptorError, DescriptorPool, FileDescriptor};
use tonic::{Code, Request, Response, Status, Streaming};
use tonic_reflection::pb::{v1, v1alpha};

use super::Shared;
use super::limits::QUESTION_BYTES_MAX;

/// Which server sets leave out, and the options of nearcall need.
const DESCRIPTOR_FILE: &str = "google/protobuf/descriptor.proto";

/// The interfaces that the gateway itself has.
const OWN: [&str; 3] = ["grpc.health.v1.Health", "grpc.reflection.v1.ServerReflection", ALPHA];
const ALPHA: &str = "grpc.reflection.v1alpha.ServerReflection";

/// What was read of the descriptions, for each that is in use.
#[derive(Debug, Default)]
pub(super) struct Pools(Mutex<Vec<(&'static Interface, DescriptorPool)>>);

impl Pools {
    /// Returns the descriptors of an interface.
    fn of(&self, interface: &'static Interface) -> Option<DescriptorPool> {
        let mut pools = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((_, pool)) = pools.iter().find(|(known, _)| std::ptr::eq(*known, interface)) {
            return Some(pool.clone());
        }
        let read = descriptor_pool(interface.descriptor_set).ok();
        if read.is_none() {
            let name = interface.name;
            tracing::warn!(name, "the description of an exposed interface cannot be read");
        }
        let pool = read?;
        // The server has changed.
        pools.retain(|(known, _)| known.name != interface.name);
        pools.push((interface, pool.clone()));
        Some(pool)
    }
}

/// Reads an encoded `google.protobuf.FileDescriptorSet`, such as that of an
/// [`Interface`], which may lack `google/protobuf/descriptor.proto`.
///
/// # Errors
///
/// It is no such set, or lacks another file that it imports.
pub fn descriptor_pool(descriptor_set: &[u8]) -> Result<DescriptorPool, DescriptorError> {
    let file = DescriptorPool::global().get_file_by_name(DESCRIPTOR_FILE);
    let mut pool = DescriptorPool::new();
    pool.add_file_descriptor_protos(file.map(|file| file.file_descriptor_proto().clone()))?;
    match pool.decode_file_descriptor_set(descriptor_set) {
        Ok(()) => Ok(pool),
        // It has that file as well.
        Err(_) => DescriptorPool::decode(descriptor_set),
    }
}

/// Returns the descriptors of what the gateway itself has.
fn own_pools() -> &'static [DescriptorPool] {
    static POOLS: OnceLock<Vec<DescriptorPool>> = OnceLock::new();
    POOLS.get_or_init(|| {
        let sets = [
            tonic_health::pb::FILE_DESCRIPTOR_SET,
            v1::FILE_DESCRIPTOR_SET,
            v1alpha::FILE_DESCRIPTOR_SET,
        ];
        sets.into_iter().filter_map(|set| descriptor_pool(set).ok()).collect()
    })
}

/// The descriptors of all interfaces of which there is a description now.
struct Known {
    pools: Vec<DescriptorPool>,
    /// Why one has none: its server is away.
    away: Option<String>,
}

async fn known(shared: &Shared) -> Known {
    let mut known = Known { pools: own_pools().to_vec(), away: None };
    for servers in shared.exposed.all() {
        match servers.interface().await {
            Ok(interface) => known.pools.extend(shared.pools.of(interface)),
            Err(status) if status.code() == nearcall::Code::Unavailable => {
                known.away = Some(status.message().to_owned());
            }
            Err(_) => {}
        }
    }
    known
}

/// Returns the first thing that is found in one of the descriptions; without one, why a server is
/// away that may have it.
async fn find<T>(
    shared: &Shared,
    look: impl Fn(&DescriptorPool) -> Option<T>,
) -> Result<T, Option<String>> {
    // What the gateway itself has asks no server.
    if let Some(found) = own_pools().iter().find_map(&look) {
        return Ok(found);
    }
    let Known { pools, away } = known(shared).await;
    pools.iter().find_map(look).ok_or(away)
}

/// Returns the file that declares a name: of a message, an enum, a service, an extension, or of
/// what is within one of those.
fn file_with(pool: &DescriptorPool, symbol: &str) -> Option<FileDescriptor> {
    let named = |name: &str| {
        let message = pool.get_message_by_name(name).map(|it| it.parent_file());
        message
            .or_else(|| pool.get_enum_by_name(name).map(|it| it.parent_file()))
            .or_else(|| pool.get_service_by_name(name).map(|it| it.parent_file()))
            .or_else(|| pool.get_extension_by_name(name).map(|it| it.parent_file()))
    };
    let within = || {
        let (outer, inner) = symbol.rsplit_once('.')?;
        let service = pool.get_service_by_name(outer);
        let service = service.filter(|it| it.methods().any(|method| method.name() == inner));
        let message = pool.get_message_by_name(outer).filter(|it| {
            it.get_field_by_name(inner).is_some() || it.oneofs().any(|oneof| oneof.name() == inner)
        });
        // A value of an enum has its name beside that of the enum.
        let with_value = || {
            pool.all_enums().find(|it| {
                let scope = it.full_name().rsplit_once('.').map_or("", |(scope, _)| scope);
                scope == outer && it.get_value_by_name(inner).is_some()
            })
        };
        service
            .map(|it| it.parent_file())
            .or_else(|| message.map(|it| it.parent_file()))
            .or_else(|| with_value().map(|it| it.parent_file()))
    };
    named(symbol).or_else(within)
}

/// An answer, for either version of the interface.
enum Answer {
    File(Vec<u8>),
    Extensions(String, Vec<i32>),
    Services(Vec<String>),
    Failure(Code, String),
}

impl Answer {
    fn file(found: Result<FileDescriptor, Option<String>>, what: &str) -> Self {
        match found {
            Ok(file) => Self::File(file.encode_to_vec()),
            Err(away) => Self::missing(what, away),
        }
    }

    /// A server that is away may have it, and who asks may try again.
    fn missing(what: &str, away: Option<String>) -> Self {
        let text = format!("no server here that answers has {what:?}");
        match away {
            Some(why) => Self::Failure(Code::Unavailable, format!("{text}: {why}")),
            None => Self::Failure(Code::NotFound, text),
        }
    }
}

async fn services(shared: &Shared) -> Answer {
    let names = shared.exposed.names().chain(OWN).map(str::to_owned);
    Answer::Services(names.collect())
}

async fn extension(shared: &Shared, message: &str, number: i32) -> Answer {
    let found = find(shared, |pool| {
        let number = u32::try_from(number).ok()?;
        Some(pool.get_message_by_name(message)?.get_extension(number)?.parent_file())
    });
    Answer::file(found.await, &format!("{message} {number}"))
}

async fn extensions(shared: &Shared, name: &str) -> Answer {
    let Known { pools, away } = known(shared).await;
    let mut extended = pools.iter().filter_map(|it| it.get_message_by_name(name)).peekable();
    if extended.peek().is_none() {
        return Answer::missing(name, away);
    }
    let numbers = extended.flat_map(|message| {
        let numbers = message.extensions().filter_map(|it| i32::try_from(it.number()).ok());
        numbers.collect::<Vec<_>>()
    });
    let numbers: BTreeSet<_> = numbers.collect();
    Answer::Extensions(name.to_owned(), numbers.into_iter().collect())
}

/// Implements the interface for one of its versions, whose messages are the same.
macro_rules! serve_version {
    ($version:ident, $server:ident) => {
        pub(super) fn $server(
            shared: &Arc<Shared>,
        ) -> $version::server_reflection_server::ServerReflectionServer<Service> {
            let service = Service(Arc::clone(shared));
            $version::server_reflection_server::ServerReflectionServer::new(service)
                .max_decoding_message_size(QUESTION_BYTES_MAX)
        }

        impl From<Answer> for $version::server_reflection_response::MessageResponse {
            fn from(answer: Answer) -> Self {
                use $version::server_reflection_response::MessageResponse::*;
                match answer {
                    Answer::File(file) => {
                        let file_descriptor_proto = vec![file];
                        FileDescriptorResponse($version::FileDescriptorResponse {
                            file_descriptor_proto,
                        })
                    }
                    Answer::Extensions(base_type_name, extension_number) => {
                        AllExtensionNumbersResponse($version::ExtensionNumberResponse {
                            base_type_name,
                            extension_number,
                        })
                    }
                    Answer::Services(names) => {
                        let services =
                            names.into_iter().map(|name| $version::ServiceResponse { name });
                        ListServicesResponse($version::ListServiceResponse {
                            service: services.collect(),
                        })
                    }
                    Answer::Failure(code, error_message) => {
                        let error_code = code.into();
                        ErrorResponse($version::ErrorResponse { error_code, error_message })
                    }
                }
            }
        }

        #[tonic::async_trait]
        impl $version::server_reflection_server::ServerReflection for Service {
            type ServerReflectionInfoStream = Pin<
                Box<dyn Stream<Item = Result<$version::ServerReflectionResponse, Status>> + Send>,
            >;

            async fn server_reflection_info(
                &self,
                request: Request<Streaming<$version::ServerReflectionRequest>>,
            ) -> Result<Response<Self::ServerReflectionInfoStream>, Status> {
                use $version::server_reflection_request::MessageRequest::*;
                let state = (Arc::clone(&self.0), request.into_inner());
                let answers = stream::unfold(state, |(shared, mut requests)| async move {
                    let request = tokio::select! {
                        () = shared.stopped() => return None,
                        request = requests.message() => request,
                    };
                    let request = match request.transpose()? {
                        Ok(request) => request,
                        Err(status) => return Some((Err(status), (shared, requests))),
                    };
                    let answer = match request.message_request.clone() {
                        Some(ListServices(_)) => services(&shared).await,
                        Some(FileByFilename(name)) => Answer::file(
                            find(&shared, |it| it.get_file_by_name(&name)).await,
                            &name,
                        ),
                        Some(FileContainingSymbol(name)) => {
                            Answer::file(find(&shared, |it| file_with(it, &name)).await, &name)
                        }
                        Some(FileContainingExtension(asked)) => {
                            extension(&shared, &asked.containing_type, asked.extension_number).await
                        }
                        Some(AllExtensionNumbersOfType(name)) => extensions(&shared, &name).await,
                        None => {
                            let text = "the request asks for nothing".to_owned();
                            Answer::Failure(Code::InvalidArgument, text)
                        }
                    };
                    let response = $version::ServerReflectionResponse {
                        valid_host: request.host.clone(),
                        original_request: Some(request),
                        message_response: Some(answer.into()),
                    };
                    Some((Ok(response), (shared, requests)))
                });
                Ok(Response::new(Box::pin(answers)))
            }
        }
    };
}

/// Answers for all exposed interfaces.
pub(super) struct Service(Arc<Shared>);

serve_version!(v1, server);
serve_version!(v1alpha, alpha_server);
