//! Generates the dispatchers (server skeletons) of a service: each passes a call to its method.
//!
//! # Invariants
//!
//! - A dispatcher is `Clone`, and `Send + Sync` if the service is.
//! - The future of an async method owns the service, so it may outlive the dispatcher.

use crate::derived_names::DerivedName;
use crate::docs;
use crate::interface::id_literal;
use crate::model::{Kind, Method, Service};

/// Generates the dispatcher of the sync trait.
pub(crate) fn sync_dispatcher(service: &Service) -> String {
    let Service { rust_name, types, interface, .. } = service;
    let name = &types.dispatcher;
    let t = type_parameter(rust_name);
    let arms: String = service.methods.iter().map(|method| sync_arm(service, method)).collect();
    let docs = struct_docs(rust_name, name);
    format!(
        "{docs}\
         pub struct {name}<{t}: {rust_name}> {{ service: ::std::sync::Arc<{t}> }}\n\
         impl<{t}: {rust_name}> {name}<{t}> {{\n\
         {constructors}\
         }}\n\
         {clone}\
         impl<{t}: {rust_name}> ::nearcall::Dispatcher for {name}<{t}> {{\n\
         fn interface(&self) -> &'static ::nearcall::Interface {{ &{interface} }}\n\
         fn local(&self) -> \
         ::core::option::Option<::std::boxed::Box<dyn ::core::any::Any>> {{\n\
         let service: ::std::sync::Arc<dyn {rust_name}> = self.service.clone();\n\
         ::core::option::Option::Some(::std::boxed::Box::new(service)) }}\n\
         fn dispatch(&self, incoming: ::nearcall::Incoming<'_>) {{\n\
         match incoming.method() {{\n\
         {arms}\
         _ => incoming.unimplemented(),\n\
         }} }}\n\
         }}\n",
        constructors = constructors(&t, "Self { service }"),
        clone = clone(&t, rust_name, name, "Self { service: self.service.clone() }"),
    )
}

/// Generates the dispatcher of the async trait.
pub(crate) fn async_dispatcher(service: &Service) -> String {
    let Service { types, interface, .. } = service;
    let (name, trait_name) = (&types.async_dispatcher, &types.async_trait);
    let t = type_parameter(&trait_name.to_string());
    let arms: String = service.methods.iter().map(|method| async_arm(service, method)).collect();
    let docs = struct_docs(&trait_name.to_string(), name);
    // A service without methods uses neither.
    let captures = match service.methods.is_empty() {
        true => "",
        false => {
            "let service = ::std::sync::Arc::clone(&self.service);\n\
             let runner = &self.runner;\n"
        }
    };
    format!(
        "{docs}\
         pub struct {name}<{t}: {trait_name}> {{\n\
         service: ::std::sync::Arc<{t}>,\n\
         runner: ::nearcall::TaskRunner,\n\
         }}\n\
         impl<{t}: {trait_name}> {name}<{t}> {{\n\
         {constructors}\
         /// Runs the methods where `spawn` puts them, such as the runtime of the program, and not\n\
         /// in the loop of the server: `.spawn_on(move |task| {{ handle.spawn(task); }})`.\n\
         #[must_use]\n\
         pub fn spawn_on(self, spawn: impl ::core::ops::Fn(::nearcall::ServiceTask) + \
         ::core::marker::Send + ::core::marker::Sync + 'static) -> Self {{\n\
         Self {{ runner: ::nearcall::TaskRunner::spawn_on(spawn), ..self }} }}\n\
         }}\n\
         {clone}\
         impl<{t}: {trait_name}> ::nearcall::Dispatcher for {name}<{t}> {{\n\
         fn interface(&self) -> &'static ::nearcall::Interface {{ &{interface} }}\n\
         fn dispatch(&self, incoming: ::nearcall::Incoming<'_>) {{\n\
         {captures}\
         match incoming.method() {{\n\
         {arms}\
         _ => incoming.unimplemented(),\n\
         }} }}\n\
         }}\n",
        constructors =
            constructors(&t, "Self { service, runner: ::nearcall::TaskRunner::default() }"),
        clone = clone(
            &t,
            &trait_name.to_string(),
            name,
            "Self { service: self.service.clone(), runner: self.runner.clone() }"
        ),
    )
}

fn struct_docs(trait_name: &str, name: &DerivedName) -> String {
    let summary = docs::paragraph(&format!(
        "Serves calls with an implementation of [`{trait_name}`]. Register it with a server."
    ));
    docs::join(&[&summary, &name.note()])
}

fn constructors(t: &str, made: &str) -> String {
    format!(
        "/// Creates a dispatcher that owns `service`.\n\
         pub fn new(service: {t}) -> Self {{ Self::shared(::std::sync::Arc::new(service)) }}\n\
         /// Creates a dispatcher that shares `service`, so that the program can use it too.\n\
         pub fn shared(service: ::std::sync::Arc<{t}>) -> Self {{ {made} }}\n\
         /// Returns the service.\n\
         pub fn service(&self) -> &::std::sync::Arc<{t}> {{ &self.service }}\n"
    )
}

/// Implements `Clone` for a service that has none, which `derive` cannot.
fn clone(t: &str, bound: &str, name: &DerivedName, copy: &str) -> String {
    format!(
        "impl<{t}: {bound}> ::core::clone::Clone for {name}<{t}> {{\n\
         fn clone(&self) -> Self {{ {copy} }} }}\n"
    )
}

/// Names the type parameter of a dispatcher: a service may be called `T` itself.
fn type_parameter(trait_name: &str) -> String {
    if trait_name == "T" { "S".to_owned() } else { "T".to_owned() }
}

fn sync_arm(service: &Service, method: &Method) -> String {
    let (function, arguments) = match method.kind {
        Kind::Unary => ("reply", "context, request"),
        Kind::Oneway => ("oneway", "context, request"),
        Kind::ReplyStream => ("reply_stream", "context, request, items"),
        Kind::RequestStream => ("receive_stream", "context, items"),
        Kind::BothStreams => ("both_streams", "context, items, replies"),
    };
    format!(
        "{} => incoming.{function}(|{arguments}| {}::{}(&*self.service, {arguments})),\n",
        id_literal(method.id),
        service.rust_name,
        method.rust_name
    )
}

fn async_arm(service: &Service, method: &Method) -> String {
    let (function, arguments) = match method.kind {
        Kind::Unary => ("reply_async", "context, request"),
        Kind::Oneway => ("oneway_async", "context, request"),
        Kind::ReplyStream => ("reply_stream_async", "context, request, items"),
        Kind::RequestStream => ("receive_stream_async", "context, items"),
        Kind::BothStreams => ("both_streams_async", "context, items, replies"),
    };
    format!(
        "{} => incoming.{function}(runner, move |{arguments}| async move {{ \
         {}::{}(&*service, {arguments}).await }}),\n",
        id_literal(method.id),
        service.types.async_trait,
        method.rust_name
    )
}
