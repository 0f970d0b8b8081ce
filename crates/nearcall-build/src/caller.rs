//! Generates the callers (client stubs) of a service: one whose functions wait, one whose functions
//! return futures.
//!
//! # Invariants
//!
//! - Each function calls one function of the runtime, and is compiled where it is called.
//! - A unary call that waits is a function call to a service of the same thread, and a message to
//!   any other. One-way calls, streams and futures are always messages.
//! - A future does nothing before it is polled, is `Send`, and borrows the caller and the request.
//! - What is true of all functions is said once, at the struct.

use crate::derived_names::DerivedName;
use crate::docs::{self, errors, join, paragraph};
use crate::interface::{method_static, methods, status_result};
use crate::model::{Kind, Method, Service};

/// Generates the caller whose functions wait.
pub(crate) fn sync_caller(service: &Service, types: &prost_build::Service) -> String {
    let Service { types: names, parts, .. } = service;
    let other = match parts.async_api {
        true => format!("; [`{}`] has the same functions as futures", names.async_caller),
        false => String::new(),
    };
    let docs = join(&[
        &paragraph(&format!(
            "Calls methods of a {}, in this thread or elsewhere.",
            trait_link(service)
        )),
        &paragraph(&format!(
            "Its functions wait{other}. Their errors are those of \
             [`ObjectRef::call`](::nearcall::client::ObjectRef::call) and of its siblings.",
        )),
        &names.caller.note(),
    ]);
    let lent = status_result("::nearcall::client::Loan");
    let mut text = docs + &head(service, &names.caller, "ObjectRef", ["", "", &lent]);
    for (method, types) in methods(service, types) {
        text += &sync_functions(service, method, types);
    }
    text + "}\n"
}

/// Generates the caller whose functions return futures.
pub(crate) fn async_caller(service: &Service, types: &prost_build::Service) -> String {
    let Service { types: names, parts, .. } = service;
    let other = match parts.sync_api {
        true => {
            format!(
                " [`{}`] has the same functions for programs without an executor.",
                names.caller
            )
        }
        false => String::new(),
    };
    let docs = join(&[
        &paragraph(&format!(
            "Calls methods of a {} by futures, which any executor can poll in any thread.",
            trait_link(service)
        )),
        &paragraph(&format!(
            "Nothing happens before a future is polled; dropping it cancels its call.{other} Their \
             errors are those of [`AsyncObjectRef::call`](::nearcall::client::AsyncObjectRef::call) and of \
             its siblings.",
        )),
        &names.async_caller.note(),
    ]);
    let lent = future("::nearcall::client::Loan");
    let borrowed = ["<'a>", "'a ", &lent];
    let mut text = docs + &head(service, &names.async_caller, "AsyncObjectRef", borrowed);
    for (method, types) in methods(service, types) {
        text += &async_function(service, method, types);
    }
    text + "}\n"
}

/// Names the trait of a service for docs: without a link if it is not generated.
fn trait_link(service: &Service) -> String {
    let Service { rust_name, parts, .. } = service;
    match parts.dispatchers && parts.sync_api {
        true => format!("[`{rust_name}`]"),
        false => format!("`{rust_name}`"),
    }
}

/// Generates the struct around an object of the runtime, and the functions that belong to no
/// method. The last three: the lifetimes of the function that lends memory and of
/// its borrow, and its result.
fn head(
    service: &Service,
    name: &DerivedName,
    object: &str,
    [lifetimes, borrowed, lent]: [&str; 3],
) -> String {
    let Service { full_name, interface, caller: names, .. } = service;
    let new_docs = join(&[
        "/// Creates a caller for the object at `address`. It connects at the first call.\n",
        &names.new.note(),
        &errors("`address` cannot be parsed."),
    ]);
    let with_docs = join(&[
        "/// Returns a caller of the same object over the same connections, whose calls have\n\
         /// `options` such as a deadline or metadata in the place of those of this one.\n",
        &names.with.note(),
    ]);
    let loan_docs = join(&[
        &paragraph(&format!(
            "Lends memory for a `bytes` field of a request: see \
             [`{object}::loan`](::nearcall::client::{object}::loan)."
        )),
        &names.loan.note(),
        &errors("The server cannot be reached, or there is no memory to lend in time."),
    ]);
    format!(
        "#[derive(Debug, Clone)]\n\
         pub struct {name} {{ object: ::nearcall::client::{object} }}\n\
         impl {name} {{\n\
         /// The description of `{full_name}` for the runtime.\n\
         pub const INTERFACE: &'static ::nearcall::service::Interface = &{interface};\n\
         {new_docs}\
         pub fn {new}(client: &::nearcall::Client, address: &str) -> \
         ::core::result::Result<Self, ::nearcall::BadAddress> {{\n\
         let object = ::nearcall::client::{object}::new(client, Self::INTERFACE, address)?;\n\
         ::core::result::Result::Ok(Self {{ object }}) }}\n\
         {with_docs}\
         #[must_use]\n\
         pub fn {with}(&self, options: ::nearcall::CallOptions) -> Self {{ \
         Self {{ object: self.object.with(options) }} }}\n\
         {loan_docs}\
         #[inline]\n\
         pub fn {loan}{lifetimes}(&{borrowed}self, bytes: usize) -> {lent} {{ \
         self.object.loan(bytes) }}\n",
        new = names.new,
        with = names.with,
        loan = names.loan,
    )
}

/// Generates the functions of a method that wait: one, and for a unary method one that starts it.
fn sync_functions(service: &Service, method: &Method, types: &prost_build::Method) -> String {
    let Method { rust_name, kind, names, .. } = method;
    let (input, output) = (&types.input_type, &types.output_type);
    let Shape { entry, has_request, summary } = Shape::of(*kind);
    let replies = format!("::nearcall::stream::ReplyStream<{output}>");
    let requests = "::nearcall::stream::RequestStream";
    let result = status_result(&match kind {
        Kind::Unary => output.clone(),
        Kind::Oneway => "()".to_owned(),
        Kind::ReplyStream => replies,
        Kind::RequestStream => format!("{requests}<{input}, {output}>"),
        Kind::BothStreams => format!("({requests}<{input}, ()>, {replies})"),
    });
    let docs = function_docs(method, types, summary);
    let fixed = method_static(service, method);
    let request = if has_request { format!("request: &{input}") } else { String::new() };
    let passed = if has_request { ", request" } else { "" };
    let local = match (kind, service.parts.dispatchers) {
        (Kind::Unary, true) => format!(", <dyn {}>::{rust_name}", service.rust_name),
        // There is no trait by which a service could be called.
        (Kind::Unary, false) => {
            ", |service: &::core::convert::Infallible, _, _| match *service {}".to_owned()
        }
        _ => String::new(),
    };
    let function = format!(
        "{docs}#[inline]\n\
         pub fn {rust_name}(&self, {request}) -> {result} {{\n\
         self.object.{entry}(&{fixed}{passed}{local}) }}\n"
    );
    if *kind != Kind::Unary {
        return function;
    }
    let docs = join(&[
        &paragraph(&format!(
            "Starts [`{rust_name}`](Self::{rust_name}), whose reply is taken later. Dropped \
             before, the call is cancelled."
        )),
        &names.start.note(),
    ]);
    format!(
        "{function}{docs}#[inline]\n\
         pub fn {}(&self, {request}) -> ::nearcall::client::PendingCall<{output}> {{\n\
         self.object.start(&{fixed}, request) }}\n",
        names.start
    )
}

/// Generates the function of a method that returns a future.
fn async_function(service: &Service, method: &Method, types: &prost_build::Method) -> String {
    let Method { rust_name, kind, .. } = method;
    let (input, output) = (&types.input_type, &types.output_type);
    let Shape { entry, has_request, summary } = Shape::of(*kind);
    let replies = format!("::nearcall::stream::AsyncReplyStream<{output}>");
    let requests = "::nearcall::stream::AsyncRequestStream";
    let result = match kind {
        Kind::Unary => format!("::nearcall::client::AsyncCall<'a, {input}, {output}>"),
        Kind::Oneway => format!("::nearcall::client::AsyncSend<'a, {input}>"),
        Kind::ReplyStream => future(&replies),
        Kind::RequestStream => future(&format!("{requests}<{input}, {output}>")),
        Kind::BothStreams => future(&format!("({requests}<{input}, ()>, {replies})")),
    };
    let docs = match service.parts.sync_api {
        true => paragraph(&format!("[`{0}::{rust_name}`] as a future.", service.types.caller)),
        false => function_docs(method, types, summary),
    };
    let (request, passed) = match has_request {
        true => (format!("request: &'a {input}"), ", request"),
        false => (String::new(), ""),
    };
    let fixed = method_static(service, method);
    format!(
        "{docs}#[inline]\n\
         pub fn {rust_name}<'a>(&'a self, {request}) -> {result} {{\n\
         self.object.{entry}(&{fixed}{passed}) }}\n"
    )
}

/// Renders the docs of the function with the name of the method.
fn function_docs(method: &Method, types: &prost_build::Method, summary: &str) -> String {
    join(&[
        &docs::comment(&types.comments),
        &paragraph(&summary.replace("{name}", &method.name)),
        &docs::options(method),
    ])
}

/// How a method of some kind is called.
struct Shape {
    /// The function of the runtime.
    entry: &'static str,
    has_request: bool,
    /// What the call does, for the docs.
    summary: &'static str,
}

impl Shape {
    fn of(kind: Kind) -> Self {
        let (entry, has_request, summary) = match kind {
            Kind::Unary => ("call", true, "Calls `{name}` and returns its reply."),
            Kind::Oneway => (
                "send",
                true,
                "Sends `{name}`: done when the message is in the channel, since there is no reply.",
            ),
            Kind::ReplyStream => (
                "open_reply_stream",
                true,
                "Starts a call of `{name}` and returns the stream of its replies. An error of the \
                 service is the last item. Dropping the stream cancels the call.",
            ),
            Kind::RequestStream => (
                "open_request_stream",
                false,
                "Starts a call of `{name}` and returns the stream of its requests. `finish` ends \
                 it and returns the reply. Dropping the stream before cancels the call.",
            ),
            Kind::BothStreams => (
                "open_both_streams",
                false,
                "Starts a call of `{name}` and returns its two streams, each for a thread or task \
                 of its own. `finish` of the requests ends them; the end of the replies has the \
                 status of the call. Dropping the replies, or the requests before `finish`, \
                 cancels the call.",
            ),
        };
        Self { entry, has_request, summary }
    }
}

/// The type of a future that borrows the caller. Named lifetimes compile in every edition.
fn future(value: &str) -> String {
    format!(
        "impl ::core::future::Future<Output = {}> + ::core::marker::Send + 'a",
        status_result(value)
    )
}
