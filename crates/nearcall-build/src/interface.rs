//! Generates the trait of a service, and the statics that describe the service to the runtime.

use std::iter;

use prost_build::Comments;

use crate::clashes::methods_module;
use crate::model::{Kind, Method, Service};
use crate::names;

/// The name of the constant with the descriptor set of a package.
pub(crate) const DESCRIPTOR_SET: &str = "FILE_DESCRIPTOR_SET";

/// Pairs the methods of a service with the types that prost resolved for them.
pub(crate) fn methods<'a>(
    service: &'a Service,
    types: &'a prost_build::Service,
) -> impl Iterator<Item = (&'a Method, &'a prost_build::Method)> {
    iter::zip(&service.methods, &types.methods)
}

/// The path of the static of a service in generated code.
pub(crate) fn interface_static(service: &Service) -> String {
    format!("{}_INTERFACE", names::to_shouty(&service.name))
}

/// The path of the static of a method in generated code.
pub(crate) fn method_static(service: &Service, method: &Method) -> String {
    format!("{}::{}", methods_module(service), names::to_shouty(&method.name))
}

/// Renders the comment of the `.proto` file as doc lines; empty if there is none.
pub(crate) fn docs(comments: &Comments) -> String {
    let mut text = String::new();
    comments.append_with_indent(0, &mut text);
    text
}

/// Generates the trait and the statics.
pub(crate) fn text(service: &Service, types: &prost_build::Service) -> String {
    let Service { full_name, rust_name, .. } = service;
    let mut text = match docs(&types.comments) {
        docs if docs.is_empty() => format!("/// The service `{full_name}`.\n"),
        docs => docs,
    };
    text += &format!("pub trait {rust_name}: 'static {{\n");
    for (method, types) in methods(service, types) {
        text += &signature(method, types);
    }
    text += "}\n";
    text + &statics(service)
}

fn signature(method: &Method, types: &prost_build::Method) -> String {
    let Method { name, rust_name, kind, deadline_ms, .. } = method;
    let mut text = docs(&types.comments);
    if text.is_empty() {
        text = format!("/// Handles `{name}`.\n");
    }
    text += match kind {
        Kind::Answer => "",
        Kind::AnswerLater => {
            "///\n/// The reply goes through `responder`, now or after this function returns.\n"
        }
        Kind::Oneway => "///\n/// One-way: there is no reply, and the caller does not wait.\n",
    };
    if let Some(deadline) = deadline_ms {
        text +=
            &format!("///\n/// Default deadline: {deadline} ms. The caller may set another one.\n");
    }
    if *kind == Kind::Answer {
        text += "///\n/// # Errors\n///\n/// The caller gets the returned status.\n";
    }
    let (input, output) = (&types.input_type, &types.output_type);
    text += &format!("fn {rust_name}(&self, context: &::nearcall::Context<'_>, request: &{input}");
    text += &match kind {
        Kind::Answer => {
            format!(") -> ::core::result::Result<{output}, ::nearcall::Status>;\n")
        }
        Kind::AnswerLater => format!(", responder: ::nearcall::Responder<{output}>);\n"),
        Kind::Oneway => ");\n".to_owned(),
    };
    text
}

fn statics(service: &Service) -> String {
    let module = methods_module(service);
    let mut text = format!(
        "/// The descriptions of the methods of `{}` for the runtime.\nmod {module} {{\n",
        { &service.full_name }
    );
    for Method { name, id, kind, deadline_ms, .. } in &service.methods {
        let deadline = match deadline_ms {
            Some(deadline) => format!(
                "::core::option::Option::Some(::core::time::Duration::from_millis({deadline}))"
            ),
            None => "::core::option::Option::None".to_owned(),
        };
        text += &format!(
            "pub(super) static {}: ::nearcall::Method = ::nearcall::Method {{ id: {}, \
             name: {name:?}, oneway: {}, deadline: {deadline} }};\n",
            names::to_shouty(name),
            id_literal(*id),
            *kind == Kind::Oneway,
        );
    }
    let methods = service.methods.iter().map(|one| format!("&{}, ", method_static(service, one)));
    text += &format!(
        "}}\nstatic {}: ::nearcall::Interface = ::nearcall::Interface {{ name: {:?}, \
         methods: &[{}], descriptor_set: {DESCRIPTOR_SET} }};\n",
        interface_static(service),
        service.full_name,
        methods.collect::<String>(),
    );
    text
}

/// Renders an id as `0x1234_5678`, the form in which a trace prints it.
pub(crate) fn id_literal(id: u32) -> String {
    format!("{:#06x}_{:04x}", id >> 16, id & 0xffff)
}
