//! Generates the caller (client stub) of a service: one function for each method.
//!
//! # Invariants
//!
//! - A call is a function call to a service of the same thread, and a message to any other.
//! - One-way calls are always messages.
//! - Every generated function that can fail has a section `# Errors`.

use crate::interface::{docs, interface_static, method_static, methods};
use crate::model::{Kind, Method, Service};

/// Generates the struct and its functions.
pub(crate) fn text(service: &Service, types: &prost_build::Service) -> String {
    let Service { full_name, rust_name, .. } = service;
    let interface = interface_static(service);
    let mut text = format!(
        "/// Calls methods of a [`{rust_name}`], in this thread or in another process.\n\
         #[derive(Debug, Clone)]\n\
         pub struct {rust_name}Caller {{ object: ::nearcall::ObjectRef }}\n\
         impl {rust_name}Caller {{\n\
         /// The description of `{full_name}` for the runtime.\n\
         pub const INTERFACE: &'static ::nearcall::Interface = &{interface};\n\
         /// Creates a caller for the object at `address`. It connects at the first call.\n\
         ///\n\
         /// # Errors\n\
         ///\n\
         /// `address` cannot be parsed.\n\
         pub fn new(client: &::nearcall::Client, address: &str) -> \
         ::core::result::Result<Self, ::nearcall::BadAddress> {{\n\
         let object = ::nearcall::ObjectRef::new(client, Self::INTERFACE, address)?;\n\
         ::core::result::Result::Ok(Self {{ object }}) }}\n"
    );
    text += &loan(service);
    for (method, types) in methods(service, types) {
        text += &match method.kind {
            Kind::Answer | Kind::AnswerLater => call(service, method, types),
            Kind::Oneway => send(service, method, types),
        };
    }
    text + "}\n"
}

/// Generates the function that lends memory for requests, under a name that no method has.
fn loan(service: &Service) -> String {
    let is_taken = service.methods.iter().any(|method| method.rust_name == "loan");
    let name = if is_taken { "loan_bytes" } else { "loan" };
    format!(
        "/// Lends memory of `bytes` bytes for a `bytes` field of a request. Write it, freeze it,\n\
         /// and put it into the request: it is passed by reference if the mechanism can, and\n\
         /// copied otherwise.\n\
         ///\n\
         /// # Errors\n\
         ///\n\
         /// `RESOURCE_EXHAUSTED`: `bytes` is above the message limit, or the server still holds\n\
         /// too much of what it was lent before. `UNAVAILABLE`: the server cannot be reached.\n\
         pub fn {name}(&self, bytes: usize) -> \
         ::core::result::Result<::nearcall::Loan, ::nearcall::Status> {{\n\
         self.object.loan(bytes) }}\n"
    )
}

fn call(service: &Service, method: &Method, types: &prost_build::Method) -> String {
    let Method { name, rust_name, snake, .. } = method;
    let (input, output) = (&types.input_type, &types.output_type);
    let result = format!("::core::result::Result<{output}, ::nearcall::Status>");
    let fixed = method_static(service, method);
    let trait_name = &service.rust_name;
    let (call, given, passed) = match method.kind {
        Kind::AnswerLater => ("call_later", "context, responder", "context, request, responder"),
        Kind::Answer | Kind::Oneway => ("call", "context", "context, request"),
    };
    let deadline = match method.deadline_ms {
        Some(ms) => format!(" Default deadline: {ms} ms."),
        None => String::new(),
    };
    let summary = format!("Calls `{name}` and waits for the reply.{deadline}");
    let docs = with_comment(types, &summary, CALL_ERRORS);
    format!(
        "{docs}\
         pub fn {rust_name}(&self, request: &{input}) -> {result} {{\n\
         self.{snake}_with(request, &::nearcall::CallOptions::new()) }}\n\
         /// Calls `{name}` with options such as a deadline or metadata.\n\
         ///\n\
         /// # Errors\n\
         ///\n\
         /// As `{rust_name}`.\n\
         pub fn {snake}_with(&self, request: &{input}, options: &::nearcall::CallOptions) \
         -> {result} {{\n\
         self.object.{call}(&{fixed}, request, options, \
         |service: &::std::rc::Rc<dyn {trait_name}>, {given}| \
         {trait_name}::{rust_name}(&**service, {passed})) }}\n\
         /// Starts a call of `{name}` and returns at once. Wait for the reply with `wait` or\n\
         /// `.await`. Dropping the pending call cancels it.\n\
         pub fn start_{snake}(&self, request: &{input}, options: &::nearcall::CallOptions) \
         -> ::nearcall::PendingCall<{output}> {{\n\
         self.object.start(&{fixed}, request, options) }}\n"
    )
}

fn send(service: &Service, method: &Method, types: &prost_build::Method) -> String {
    let Method { name, rust_name, snake, .. } = method;
    let input = &types.input_type;
    let fixed = method_static(service, method);
    let result = "::core::result::Result<(), ::nearcall::Status>";
    let summary =
        format!("Sends `{name}`. Returns when the message is in the channel; there is no reply.");
    let docs = with_comment(types, &summary, SEND_ERRORS);
    format!(
        "{docs}\
         pub fn {rust_name}(&self, request: &{input}) -> {result} {{\n\
         self.{snake}_with(request, &::nearcall::CallOptions::new()) }}\n\
         /// Sends `{name}` with options such as metadata.\n\
         ///\n\
         /// # Errors\n\
         ///\n\
         /// As `{rust_name}`.\n\
         pub fn {snake}_with(&self, request: &{input}, options: &::nearcall::CallOptions) \
         -> {result} {{\n\
         self.object.send(&{fixed}, request, options) }}\n"
    )
}

/// Joins the comment of the `.proto` file, the summary, and the section `# Errors`.
fn with_comment(types: &prost_build::Method, summary: &str, errors: &str) -> String {
    let mut text = docs(&types.comments);
    if !text.is_empty() {
        text += "///\n";
    }
    text + "/// " + summary + "\n///\n/// # Errors\n///\n" + errors
}

/// The errors of a call, as doc lines.
const CALL_ERRORS: &str = "\
    /// The status of the service, or of the runtime: `DEADLINE_EXCEEDED` without a reply in\n\
    /// time, `UNAVAILABLE` if the server cannot be reached or has ended, `UNIMPLEMENTED` if it\n\
    /// has no such object or method, `RESOURCE_EXHAUSTED` if a message is above a limit.\n";

/// The errors of a one-way call, as doc lines.
const SEND_ERRORS: &str = "\
    /// The message did not get into the channel: `UNAVAILABLE` if the server cannot be reached,\n\
    /// `DEADLINE_EXCEEDED` if there was no room in time, `RESOURCE_EXHAUSTED` if the message is\n\
    /// above a limit. Success does not mean that the service received it.\n";
