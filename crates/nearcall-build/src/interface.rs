//! Generates the traits of a service, and the statics that describe the service to the runtime.

use std::iter;

use crate::docs;
use crate::model::{Kind, Method, Service};
use crate::options::Idempotency;

/// The name of the constant with the descriptor set of a package.
pub(crate) const DESCRIPTOR_SET: &str = "FILE_DESCRIPTOR_SET";

/// Pairs the methods of a service with the types that prost resolved for them.
pub(crate) fn methods<'a>(
    service: &'a Service,
    types: &'a prost_build::Service,
) -> impl Iterator<Item = (&'a Method, &'a prost_build::Method)> {
    iter::zip(&service.methods, &types.methods)
}

/// The path of the static of a method in generated code.
pub(crate) fn method_static(service: &Service, method: &Method) -> String {
    format!("{}::{}", service.types.methods_module, method.shouty)
}

/// Generates the trait for services of one thread.
pub(crate) fn sync_trait(service: &Service, types: &prost_build::Service) -> String {
    let Service { rust_name, types: names, .. } = service;
    let other = match service.parts.async_api {
        true => format!(
            " [`{}`] is the same interface for services whose methods are `async`.",
            names.async_trait
        ),
        false => String::new(),
    };
    let about = docs::paragraph(&format!(
        "Methods run in the thread of the server's loop, or in a pool if the service is \
         registered so. A method may reply after it has returned: `Context::answer_later`.{other}"
    ));
    let errors = docs::paragraph(docs::METHOD_ERRORS);
    let mut text = docs::join(&[&summary(service, types), &about, &errors]);
    text += &format!("pub trait {rust_name}: 'static {{\n");
    for (method, types) in methods(service, types) {
        text += &method_docs(method, types);
        let (arguments, result) = sync_signature(method, types);
        let result = result.map_or(String::new(), |result| format!(" -> {result}"));
        text += &format!(
            "fn {}(&self, context: &::nearcall::Context<'_>, {arguments}){result};\n",
            method.rust_name
        );
    }
    text + "}\n"
}

/// Generates the trait for services whose methods are `async`. Beside the other trait, the docs of
/// its methods are there.
pub(crate) fn async_trait(service: &Service, types: &prost_build::Service) -> String {
    let Service { rust_name, types: names, .. } = service;
    let start = match service.parts.sync_api {
        true => format!("The methods of [`{rust_name}`] for a service that is shared by threads."),
        false => "For a service that is shared by threads.".to_owned(),
    };
    let about = docs::paragraph(&format!(
        "{start} Write the methods as `async fn`, with a `CallContext` and the request by value: \
         their futures run on the executor of the \
         server's loop, or where `{}::spawn_on` puts them. The future of a call that is \
         cancelled, whose deadline has passed or whose caller is gone is dropped.",
        names.async_dispatcher
    ));
    let errors = docs::paragraph(docs::METHOD_ERRORS);
    let mut text =
        docs::join(&[&summary(service, types), &about, &errors, &names.async_trait.note()]);
    text += &format!(
        "pub trait {}: ::core::marker::Send + ::core::marker::Sync + 'static {{\n",
        names.async_trait
    );
    for (method, types) in methods(service, types) {
        text += &match service.parts.sync_api {
            true => {
                format!("/// As [`{rust_name}::{}`].\n", method.rust_name.trim_start_matches("r#"))
            }
            false => method_docs(method, types),
        };
        let (arguments, output) = async_signature(method, types);
        text += &format!(
            "fn {}(&self, context: ::nearcall::CallContext, {arguments}) \
             -> impl ::core::future::Future<Output = {output}> + ::core::marker::Send;\n",
            method.rust_name
        );
    }
    text + "}\n"
}

fn summary(service: &Service, types: &prost_build::Service) -> String {
    match docs::comment(&types.comments) {
        docs if docs.is_empty() => format!("/// The service `{}`.\n", service.full_name),
        docs => docs,
    }
}

fn method_docs(method: &Method, types: &prost_build::Method) -> String {
    let mut comment = docs::comment(&types.comments);
    if comment.is_empty() {
        comment = format!("/// Handles `{}`.\n", method.name);
    }
    docs::join(&[&comment, &docs::shape(method.kind), &docs::options(method)])
}

/// The arguments after the context, and the result.
fn sync_signature(method: &Method, types: &prost_build::Method) -> (String, Option<String>) {
    let (input, output) = (&types.input_type, &types.output_type);
    let items = format!("items: ::nearcall::stream::ItemReceiver<{input}>");
    let ends = status_result("()");
    match method.kind {
        Kind::Unary => (format!("request: &{input}"), Some(status_result(output))),
        Kind::Oneway => (format!("request: &{input}"), None),
        Kind::ReplyStream => (
            format!("request: &{input}, items: ::nearcall::stream::ItemSender<{output}>"),
            Some(ends),
        ),
        Kind::RequestStream => (items, Some(status_result(output))),
        Kind::BothStreams => {
            (format!("{items}, replies: ::nearcall::stream::ItemSender<{output}>"), Some(ends))
        }
    }
}

/// The arguments after the context, and the output of the future.
fn async_signature(method: &Method, types: &prost_build::Method) -> (String, String) {
    let (input, output) = (&types.input_type, &types.output_type);
    let request = format!("request: {input}");
    let items = format!("items: ::nearcall::stream::AsyncItemReceiver<{input}>");
    let ends = status_result("()");
    match method.kind {
        Kind::Unary => (request, status_result(output)),
        Kind::Oneway => (request, "()".to_owned()),
        Kind::ReplyStream => {
            (format!("{request}, items: ::nearcall::stream::AsyncItemSender<{output}>"), ends)
        }
        Kind::RequestStream => (items, status_result(output)),
        Kind::BothStreams => {
            (format!("{items}, replies: ::nearcall::stream::AsyncItemSender<{output}>"), ends)
        }
    }
}

/// The type of a result with the error of a call.
pub(crate) fn status_result(value: &str) -> String {
    format!("::nearcall::Result<{value}>")
}

/// Generates the statics that describe the service and its methods.
pub(crate) fn statics(service: &Service) -> String {
    let Service { full_name, types, interface, .. } = service;
    let mut text =
        format!("/// The descriptions of the methods of `{full_name}` for the runtime.\n");
    text = docs::join(&[&text, &types.methods_module.note()]);
    text += &format!(
        "mod {} {{\n\
         use ::nearcall::service::{{Idempotency, Method, MethodKind}};\n\
         pub struct Skeleton;\n",
        types.methods_module
    );
    for Method { name, shouty, id, kind, deadline_ms, idempotency, .. } in &service.methods {
        let deadline = deadline_ms.map_or(String::new(), |ms| format!(".with_deadline_ms({ms})"));
        let idempotency = match idempotency {
            Idempotency::Unknown => String::new(),
            other => format!(".with_idempotency(Idempotency::{other:?})"),
        };
        text += &format!(
            "pub static {shouty}: Method = \
             Method::new({}, {name:?}, MethodKind::{kind:?}){deadline}{idempotency};\n",
            id_literal(*id),
        );
    }
    let methods = service.methods.iter().map(|one| format!("&{}, ", method_static(service, one)));
    text += &format!(
        "}}\nstatic {interface}: ::nearcall::service::Interface = \
         ::nearcall::service::Interface::new({full_name:?}, &[{}], {DESCRIPTOR_SET});\n",
        methods.collect::<String>(),
    );
    text
}

/// Renders an id as `0x1234_5678`, the form in which a trace prints it.
pub(crate) fn id_literal(id: u32) -> String {
    format!("{:#06x}_{:04x}", id >> 16, id & 0xffff)
}
