//! Generates the dispatchers (server skeletons) of a service: each passes a call to its method.
//!
//! The types are those of the runtime, under a name of the interface. Generated is the table of
//! methods alone.
//!
//! **Not here:** what a dispatcher owns, and how it is made (`service/dispatcher.rs` and
//! `service/async_service.rs` of `nearcall`).

use crate::derived_names::DerivedName;
use crate::docs;
use crate::interface::id_literal;
use crate::model::{Kind, Method, Service};

/// Generates the dispatcher of the sync trait.
pub(crate) fn sync_dispatcher(service: &Service) -> String {
    let Service { rust_name, types, interface, .. } = service;
    let name = &types.dispatcher;
    let (t, skeleton) = (type_parameter(rust_name), skeleton(service));
    let arms: String = service.methods.iter().map(|method| sync_arm(&t, method)).collect();
    let docs = alias_docs(rust_name, name);
    format!(
        "{docs}\
         pub type {name}<{t}, P = ::std::sync::Arc<{t}>> = \
         ::nearcall::service::SyncDispatcher<{skeleton}, {t}, P>;\n\
         impl<{t}: {rust_name}> ::nearcall::service::SyncSkeleton<{t}> for {skeleton} {{\n\
         type Object = dyn {rust_name};\n\
         const INTERFACE: &'static ::nearcall::service::Interface = &{interface};\n\
         fn local(service: ::nearcall::service::SharedService<{t}>) -> \
         ::nearcall::service::SharedService<dyn {rust_name}> {{\n\
         match service {{\n\
         ::nearcall::service::SharedService::Arc(it) => \
         ::nearcall::service::SharedService::Arc(it),\n\
         ::nearcall::service::SharedService::Rc(it) => \
         ::nearcall::service::SharedService::Rc(it),\n\
         }} }}\n\
         #[inline]\n\
         fn dispatch(service: &{t}, incoming: ::nearcall::service::Incoming<'_>) {{\n\
         match incoming.method() {{\n\
         {arms}\
         _ => incoming.unimplemented(),\n\
         }} }}\n\
         }}\n"
    )
}

/// Generates the dispatcher of the async trait.
pub(crate) fn async_dispatcher(service: &Service) -> String {
    let Service { types, interface, .. } = service;
    let (name, trait_name) = (&types.async_dispatcher, &types.async_trait.to_string());
    let (t, skeleton) = (type_parameter(trait_name), skeleton(service));
    let arms: String = service.methods.iter().map(|method| async_arm(&t, method)).collect();
    let docs = alias_docs(trait_name, name);
    format!(
        "{docs}\
         pub type {name}<{t}> = ::nearcall::service::AsyncDispatcher<{skeleton}, {t}>;\n\
         impl<{t}: {trait_name}> ::nearcall::service::AsyncSkeleton<{t}> for {skeleton} {{\n\
         const INTERFACE: &'static ::nearcall::service::Interface = &{interface};\n\
         fn dispatch(incoming: ::nearcall::service::AsyncIncoming<'_, {t}>) {{\n\
         match incoming.method() {{\n\
         {arms}\
         _ => incoming.unimplemented(),\n\
         }} }}\n\
         }}\n"
    )
}

fn alias_docs(trait_name: &str, name: &DerivedName) -> String {
    let summary = docs::paragraph(&format!(
        "Serves calls with an implementation of [`{trait_name}`]. Register it with a server."
    ));
    docs::join(&[&summary, &name.note()])
}

/// Names the type that has the table of methods.
fn skeleton(service: &Service) -> String {
    format!("{}::Skeleton", service.types.methods_module)
}

/// Names the type parameter of a dispatcher: a service may be called `T` itself.
fn type_parameter(trait_name: &str) -> String {
    if trait_name == "T" { "S".to_owned() } else { "T".to_owned() }
}

fn sync_arm(t: &str, method: &Method) -> String {
    let (function, arguments) = match method.kind {
        Kind::Unary => ("reply", "c, q"),
        Kind::Oneway => ("oneway", "c, q"),
        Kind::ReplyStream => ("reply_stream", "c, q, r"),
        Kind::RequestStream => ("receive_stream", "c, q"),
        Kind::BothStreams => ("both_streams", "c, q, r"),
    };
    format!(
        "{} => incoming.{function}(|{arguments}| {t}::{}(service, {arguments})),\n",
        id_literal(method.id),
        method.rust_name
    )
}

fn async_arm(t: &str, method: &Method) -> String {
    let function = match method.kind {
        Kind::Unary => "reply",
        Kind::Oneway => "oneway",
        Kind::ReplyStream => "reply_stream",
        Kind::RequestStream => "receive_stream",
        Kind::BothStreams => "both_streams",
    };
    format!("{} => incoming.{function}({t}::{}),\n", id_literal(method.id), method.rust_name)
}
