//! Generates the caller (client stub) of a service whose functions return futures.
//!
//! # Invariants
//!
//! - Each function calls one function of the runtime, and does nothing before its future is polled.
//! - Every future is `Send` and borrows the caller and the request.
//!
//! **Not here:** the caller that waits (`caller.rs`).

use crate::caller::{head, loan_docs};
use crate::docs::{self, errors, join, paragraph};
use crate::interface::{method_static, methods, status_result};
use crate::model::{Kind, Method, Service};

/// Generates the struct and its functions.
pub(crate) fn text(service: &Service, types: &prost_build::Service) -> String {
    let Service { rust_name, types: names, .. } = service;
    let docs = join(&[
        &paragraph(&format!(
            "Calls methods of a [`{rust_name}`] by futures, which any executor can poll in any \
             thread."
        )),
        &paragraph(&format!(
            "Nothing happens before a future is polled; dropping it cancels its call. [`{}`] has \
             the same functions for programs without an executor.",
            names.caller
        )),
        &names.async_caller.note(),
    ]);
    let mut text = docs + &head(service, &names.async_caller, "AsyncObjectRef");
    text += &loans(service);
    for (method, types) in methods(service, types) {
        text += &function(service, method, types);
    }
    text + "}\n"
}

/// Generates the functions that lend memory for requests.
fn loans(service: &Service) -> String {
    let names = &service.caller;
    let [loan, with] = loan_docs(names);
    let future = future("::nearcall::Loan");
    format!(
        "{loan}\
         pub fn {}<'a>(&'a self, bytes: usize) -> {future} {{ \
         self.object.loan(bytes, ::core::option::Option::None) }}\n\
         {with}\
         pub fn {}<'a>(&'a self, bytes: usize, options: &'a ::nearcall::CallOptions) \
         -> {future} {{ \
         self.object.loan(bytes, ::core::option::Option::Some(options)) }}\n",
        names.loan, names.loan_with
    )
}

/// Generates the function with the name of the method, and that with options.
fn function(service: &Service, method: &Method, types: &prost_build::Method) -> String {
    let Method { name, rust_name, names, kind, .. } = method;
    let (input, output) = (&types.input_type, &types.output_type);
    let Shape { entry, has_request, result, summary, errors: errors_text } =
        shape(*kind, input, output);
    let docs = join(&[
        &docs::comment(&types.comments),
        &paragraph(&summary.replace("{name}", name)),
        &docs::options(method),
        &errors(errors_text),
    ]);
    let with_docs = join(&[
        &paragraph(&format!("As `{rust_name}`, with options such as a deadline or metadata.")),
        &names.with.note(),
        &errors(&format!("As `{rust_name}`.")),
    ]);
    let (declared, passed) = match has_request {
        true => (format!("request: &'a {input}, "), "request, "),
        false => (String::new(), ""),
    };
    let fixed = method_static(service, method);
    format!(
        "{docs}\
         pub fn {rust_name}<'a>(&'a self, {declared}) -> {result} {{\n\
         self.object.{entry}(&{fixed}, {passed}::core::option::Option::None) }}\n\
         {with_docs}\
         pub fn {}<'a>(&'a self, {declared}options: &'a ::nearcall::CallOptions) \
         -> {result} {{\n\
         self.object.{entry}(&{fixed}, {passed}::core::option::Option::Some(options)) }}\n",
        names.with
    )
}

/// What the functions of methods of one shape have in common.
struct Shape {
    /// The function of the runtime.
    entry: &'static str,
    has_request: bool,
    /// The type of the future.
    result: String,
    summary: &'static str,
    errors: &'static str,
}

fn shape(kind: Kind, input: &str, output: &str) -> Shape {
    let requests = format!("::nearcall::AsyncRequestStream<{input}, ");
    let replies = format!("::nearcall::AsyncReplyStream<{output}>");
    let (entry, has_request, result, summary) = match kind {
        Kind::Unary => (
            "call",
            true,
            format!("::nearcall::AsyncCall<'a, {input}, {output}>"),
            "Calls `{name}`. The future ends with the reply. Dropping it cancels the call.",
        ),
        Kind::Oneway => (
            "send",
            true,
            format!("::nearcall::AsyncSend<'a, {input}>"),
            "Sends `{name}`. The future ends when the message is in the channel; there is no \
             reply. Dropping it before then gives the message up.",
        ),
        Kind::ReplyStream => (
            "open_reply_stream",
            true,
            future(&replies),
            "Starts a call of `{name}` and returns the stream of its replies. An error of the \
             service is the last item. Dropping the future or the stream cancels the call.",
        ),
        Kind::RequestStream => (
            "open_request_stream",
            false,
            future(&format!("{requests}{output}>")),
            "Starts a call of `{name}` and returns the stream of its requests. `finish` ends it \
             and waits for the reply. Dropping the future or the stream before cancels the call.",
        ),
        Kind::BothStreams => (
            "open_both_streams",
            false,
            future(&format!("({requests}()>, {replies})")),
            "Starts a call of `{name}` and returns its two streams, which two tasks may use. \
             `finish` of the requests ends them; the end of the replies has the status of the \
             call. Dropping the replies, or the requests before `finish`, cancels the call.",
        ),
    };
    let errors = match kind {
        Kind::Unary => docs::CALL_ERRORS,
        Kind::Oneway => docs::SEND_ERRORS,
        Kind::ReplyStream | Kind::RequestStream | Kind::BothStreams => docs::START_ERRORS,
    };
    Shape { entry, has_request, result, summary, errors }
}

/// The type of a future that borrows the caller. Named lifetimes compile in every edition.
fn future(value: &str) -> String {
    format!(
        "impl ::core::future::Future<Output = {}> + ::core::marker::Send + 'a",
        status_result(value)
    )
}
