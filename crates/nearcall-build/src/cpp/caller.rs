//! Generates the class that calls a service.
//!
//! # Invariants
//!
//! - Each function calls one function of `nearcall::Caller`.
//!
//! **Not here:** the class that serves (`service.rs`).

use super::model::{CppMethod, CppService};
use super::text;
use crate::model::{Kind, Method};

/// Generates the class.
pub(super) fn generate(service: &CppService<'_>) -> String {
    let CppService { caller: class, create, comment, .. } = service;
    let full_name = &service.service.full_name;
    let functions: String = service.methods.iter().map(functions).collect();
    let gap = if comment.is_empty() { "" } else { "//\n" };
    format!(
        "// Calls methods of {full_name}, in any thread.\n\
         {gap}{comment}\
         class {class} {{\n \
         public:\n\
         \x20 // Makes a caller of the object at an address. It connects at the first call.\n\
         \x20 static ::nearcall::Result<{class}> {create}(\n\
         \x20     const ::nearcall::Client& client,\n\
         \x20     const ::std::string& address) {{\n\
         \x20   auto made = ::nearcall::Caller::create(client, address, \"{full_name}\");\n\
         \x20   if (!made.ok()) return made.status();\n\
         \x20   return {class}(::std::move(*made));\n\
         \x20 }}\n\
         {}\n \
         private:\n\
         \x20 explicit {class}(::nearcall::Caller caller) : caller_(::std::move(caller)) {{}}\n\
         \x20 ::nearcall::Caller caller_;\n\
         }};\n\n",
        text::indent(&functions)
    )
}

fn functions(one: &CppMethod<'_>) -> String {
    let CppMethod { method, name, start, awaitable, input, output, .. } = one;
    let Method { kind, name: wire, .. } = method;
    let (types, entry, returned) = match kind {
        Kind::Unary => (output.clone(), "call", output.clone()),
        Kind::Oneway => (String::new(), "send", "void".to_owned()),
        Kind::ReplyStream => {
            (output.clone(), "open_reply_stream", format!("::nearcall::ReplyStream<{output}>"))
        }
        Kind::RequestStream => (
            format!("{input}, {output}"),
            "open_request_stream",
            format!("::nearcall::RequestStream<{input}, {output}>"),
        ),
        Kind::BothStreams => (
            format!("{input}, {output}"),
            "open_both_streams",
            format!("::nearcall::BothStreams<{input}, {output}>"),
        ),
    };
    let types = if types.is_empty() { types } else { format!("<{types}>") };
    let has_request = !matches!(kind, Kind::RequestStream | Kind::BothStreams);
    let request =
        if has_request { format!("const {input}& request,\n    ") } else { String::new() };
    let passed = if has_request { ", request" } else { "" };
    let (metadata, with_metadata) = match kind {
        Kind::Unary => (",\n    ::nearcall::Metadata* metadata = nullptr", ", metadata"),
        _ => ("", ""),
    };
    let options = "const ::nearcall::CallOptions& options = {}";
    let mut out = format!(
        "{}::nearcall::Result<{returned}> {name}(\n    {request}{options}{metadata}) const {{\n  \
         return caller_.{entry}{types}(\n      \"{wire}\"{passed}, options{with_metadata});\n}}\n",
        docs(one)
    );
    if *kind == Kind::Unary {
        out += &format!(
            "// Starts `{name}`, whose reply is taken later. Destroyed before, the call is \
             cancelled.\n\
             ::nearcall::Result<::nearcall::Pending<{output}>> {start}(\n    {request}{options}) \
             const {{\n  return caller_.start<{output}>(\n      \"{wire}\", request, \
             options);\n}}\n"
        );
    }
    let awaited = match kind {
        Kind::Oneway => return out,
        Kind::Unary => format!("AsyncCall<{output}>"),
        Kind::ReplyStream => format!("Opening<::nearcall::AsyncReplyStream<{output}>>"),
        Kind::RequestStream => {
            format!("Opening<::nearcall::AsyncRequestStream<{input}, {output}>>")
        }
        Kind::BothStreams => format!("Opening<::nearcall::AsyncBothStreams<{input}, {output}>>"),
    };
    out += &format!(
        "#ifdef NEARCALL_COROUTINES\n\
         // Starts `{name}` for a coroutine, which awaits its result.\n\
         ::nearcall::{awaited} {awaitable}(\n    {request}{options}) const {{\n  \
         return caller_.async_{entry}{types}(\n      \"{wire}\"{passed}, options);\n}}\n\
         #endif\n"
    );
    out
}

fn docs(one: &CppMethod<'_>) -> String {
    let summary = match one.method.kind {
        Kind::Unary => "",
        Kind::Oneway => "// One-way: done when the message is in the channel; there is no reply.\n",
        Kind::ReplyStream => {
            "// Replies with a stream. Destroyed before its end, it is cancelled.\n"
        }
        Kind::RequestStream => {
            "// Takes a stream: `send` its items, then `finish` for the reply.\n"
        }
        Kind::BothStreams => "// Takes a stream and replies with one, each at its own pace.\n",
    };
    let deadline = one.method.deadline_ms.map_or(String::new(), |ms| {
        format!("// Default deadline: {ms} ms. The options may set another one.\n")
    });
    format!("{}{summary}{deadline}", one.comment)
}
