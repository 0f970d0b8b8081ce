//! Generates the base class of services.
//!
//! # Invariants
//!
//! - A call goes to its method by the index in the interface, which is that of the embedded
//!   descriptors.
//!
//! **Not here:** the class that calls (`caller.rs`).

use super::model::{CppMethod, CppService};
use super::text;
use crate::model::Kind;

/// Generates the class.
pub(super) fn generate(service: &CppService<'_>) -> String {
    let CppService { base: class, comment, descriptor_set, .. } = service;
    let full_name = &service.service.full_name;
    let methods: String = service.methods.iter().map(declare).collect();
    let cases: String =
        (0..).zip(&service.methods).map(|(index, one)| dispatch(index, one)).collect();
    let gap = if comment.is_empty() { "" } else { "//\n" };
    format!(
        "// Serves {full_name}: implement its methods, and give it to\n\
         // nearcall::Server::builder().\
         \n\
         // A method may call `call.defer()` and return `nearcall::answered_later()`.\n\
         {gap}{comment}\
         class {class} : public ::nearcall::Service {{\n \
         public:\n\
         {}\n\
         \x20 ::std::string interface_name() const final {{ return \"{full_name}\"; }}\n\
         \x20 ::std::string_view descriptor_set() const final {{\n\
         \x20   return {{{descriptor_set}, sizeof {descriptor_set} - 1}};\n\
         \x20 }}\n\
         \x20 void serve(::nearcall::Call& call, const ::nearcall::Request& request) final {{\n\
         \x20   switch (request.index) {{\n\
         {}\
         \x20     default:\n\
         \x20       return (void)call.fail(\n\
         \x20           {{::nearcall::Code::Unimplemented, \"{full_name} has no such method\"}});\n\
         \x20   }}\n\
         \x20 }}\n\
         }};\n\n",
        text::indent(&methods),
        text::indent(&text::indent(&text::indent(&cases)))
    )
}

fn declare(one: &CppMethod<'_>) -> String {
    let CppMethod { method, name, input, output, comment, .. } = one;
    let request = format!("const {input}& request");
    let requests = format!("::nearcall::ItemReceiver<{input}> requests");
    let replies = format!("::nearcall::ItemSender<{output}> replies");
    let (returned, parameters) = match method.kind {
        Kind::Unary => (format!("::nearcall::Result<{output}>"), vec![request]),
        Kind::Oneway => ("void".to_owned(), vec![request]),
        Kind::ReplyStream => ("::nearcall::Result<void>".to_owned(), vec![request, replies]),
        Kind::RequestStream => (format!("::nearcall::Result<{output}>"), vec![requests]),
        Kind::BothStreams => ("::nearcall::Result<void>".to_owned(), vec![requests, replies]),
    };
    let parameters: String = parameters.iter().map(|one| format!(",\n    {one}")).collect();
    format!("{comment}virtual {returned} {name}(\n    ::nearcall::Call& call{parameters}) = 0;\n")
}

fn dispatch(index: u32, one: &CppMethod<'_>) -> String {
    let CppMethod { method, name, input, output, .. } = one;
    let requests = format!("call.requests<{input}>()");
    let replies = format!("call.replies<{output}>()");
    let call = match method.kind {
        Kind::Unary => format!("return call.end({name}(call, *decoded));"),
        Kind::Oneway => format!("return {name}(call, *decoded);"),
        Kind::ReplyStream => format!("return call.end({name}(call, *decoded, {replies}));"),
        Kind::RequestStream => format!("return call.end({name}(call, {requests}));"),
        Kind::BothStreams => format!("return call.end({name}(call, {requests}, {replies}));"),
    };
    match method.kind {
        Kind::RequestStream | Kind::BothStreams => format!("case {index}:\n  {call}\n"),
        Kind::Unary | Kind::Oneway | Kind::ReplyStream => format!(
            "case {index}: {{\n  const auto decoded = request.decode<{input}>();\n  \
             if (!decoded.ok()) return (void)call.fail(decoded.status());\n  {call}\n}}\n"
        ),
    }
}
