//! The caller of a service: the methods as functions that anybody can call.
//!
//! Always true: a call goes straight to a service of the same thread, and as a message to any
//! other; one-way calls are always messages.

use crate::interface::{docs, interface_static, method_static, methods};
use crate::model::{Kind, Method, Service};

/// The struct and its functions.
pub(crate) fn text(service: &Service, types: &prost_build::Service) -> String {
    let Service { full_name, rust_name, .. } = service;
    let interface = interface_static(service);
    let mut text = format!(
        "/// Calls a [`{rust_name}`], wherever it lives.\n\
         #[derive(Debug, Clone)]\n\
         pub struct {rust_name}Caller {{ object: ::nearcall::ObjectRef }}\n\
         impl {rust_name}Caller {{\n\
         /// `{full_name}`, as the runtime sees it.\n\
         pub const INTERFACE: &'static ::nearcall::Interface = &{interface};\n\
         /// A caller for the object at `address`. Connects at the first call.\n\
         ///\n\
         /// # Errors\n\
         ///\n\
         /// The address makes no sense.\n\
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

/// Memory for requests. A method of that name goes first, and ours gets another.
fn loan(service: &Service) -> String {
    let is_taken = service.methods.iter().any(|method| method.rust_name == "loan");
    let name = if is_taken { "loan_bytes" } else { "loan" };
    format!(
        "/// Memory for a `bytes` field of a request: written, then frozen, it is passed by\n\
         /// reference where the mechanism can, and copied where not.\n\
         ///\n\
         /// # Errors\n\
         ///\n\
         /// `RESOURCE_EXHAUSTED`: too much at once, or the server has not given back enough.\n\
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
    let (call_local, parameters, arguments) = match method.kind {
        Kind::AnswerLater => {
            ("call_local_later", "context, responder", "context, request, responder")
        }
        Kind::Answer | Kind::Oneway => ("call_local", "context", "context, request"),
    };
    let docs = with_comment(types, &format!("Calls `{name}` and waits for the answer."));
    format!(
        "{docs}\
         pub fn {rust_name}(&self, request: &{input}) -> {result} {{\n\
         self.{snake}_with(request, &::nearcall::CallOptions::new()) }}\n\
         /// As `{rust_name}`, with options such as a deadline or metadata.\n\
         ///\n\
         /// # Errors\n\
         ///\n\
         /// The status that the service gave, or the reason why there is no answer.\n\
         pub fn {snake}_with(&self, request: &{input}, options: &::nearcall::CallOptions) \
         -> {result} {{\n\
         match self.object.local::<::std::rc::Rc<dyn {trait_name}>>() {{\n\
         Some(service) => self.object.{call_local}(&{fixed}, options, |{parameters}| \
         {trait_name}::{rust_name}(&*service, {arguments})),\n\
         None => self.object.call(&{fixed}, request, options),\n\
         }} }}\n\
         /// Starts a call of `{name}`, to be waited for or cancelled later.\n\
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
    let summary = format!("Sends `{name}`; returns when the message is in the channel.");
    let docs = with_comment(types, &summary);
    format!(
        "{docs}\
         pub fn {rust_name}(&self, request: &{input}) -> {result} {{\n\
         self.{snake}_with(request, &::nearcall::CallOptions::new()) }}\n\
         /// As `{rust_name}`, with options such as metadata.\n\
         ///\n\
         /// # Errors\n\
         ///\n\
         /// The message could not be put into the channel.\n\
         pub fn {snake}_with(&self, request: &{input}, options: &::nearcall::CallOptions) \
         -> {result} {{\n\
         self.object.send(&{fixed}, request, options) }}\n"
    )
}

/// The author's comment, then our sentence and what a failure means.
fn with_comment(types: &prost_build::Method, summary: &str) -> String {
    let mut text = docs(&types.comments);
    if !text.is_empty() {
        text += "///\n";
    }
    text + "/// " + summary + "\n"
}
