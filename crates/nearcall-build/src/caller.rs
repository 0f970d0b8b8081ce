//! Generates the caller (client stub) of a service: functions for each method.
//!
//! # Invariants
//!
//! - Each function calls one function of the runtime.
//! - A unary call is a function call to a service of the same thread, and a message to any other.
//!   One-way calls and streams are always messages.
//!
//! **Not here:** the caller whose functions return futures (`async_caller.rs`).

use crate::derived_names::{CallerNames, DerivedName};
use crate::docs::{self, errors, join, paragraph};
use crate::interface::{method_static, methods, status_result};
use crate::model::{Kind, Method, Service};

/// Generates the struct and its functions.
pub(crate) fn text(service: &Service, types: &prost_build::Service) -> String {
    let Service { rust_name, types: names, .. } = service;
    let docs = join(&[
        &paragraph(&format!("Calls methods of a [`{rust_name}`], in this thread or elsewhere.")),
        &paragraph(&format!(
            "Its functions wait. [`{}`] has the same functions as futures.",
            names.async_caller
        )),
        &names.caller.note(),
    ]);
    let mut text = docs + &head(service, &names.caller, "ObjectRef");
    text += &loans(service);
    for (method, types) in methods(service, types) {
        let function = Function { service, method, types };
        text += &match method.kind {
            Kind::Unary => function.call(),
            Kind::Oneway => function.send(),
            Kind::ReplyStream => function.reply_stream(),
            Kind::RequestStream => function.request_stream(),
            Kind::BothStreams => function.both_streams(),
        };
    }
    text + "}\n"
}

/// Generates the struct around an object of the runtime, and the beginning of its functions.
pub(crate) fn head(service: &Service, name: &DerivedName, object: &str) -> String {
    let Service { full_name, interface, .. } = service;
    let new = &service.caller.new;
    let new_docs = join(&[
        "/// Creates a caller for the object at `address`. It connects at the first call.\n",
        &new.note(),
        &errors("`address` cannot be parsed."),
    ]);
    format!(
        "#[derive(Debug, Clone)]\n\
         pub struct {name} {{ object: ::nearcall::{object} }}\n\
         impl {name} {{\n\
         /// The description of `{full_name}` for the runtime.\n\
         pub const INTERFACE: &'static ::nearcall::Interface = &{interface};\n\
         {new_docs}\
         pub fn {new}(client: &::nearcall::Client, address: &str) -> \
         ::core::result::Result<Self, ::nearcall::BadAddress> {{\n\
         let object = ::nearcall::{object}::new(client, Self::INTERFACE, address)?;\n\
         ::core::result::Result::Ok(Self {{ object }}) }}\n"
    )
}

/// What a loan is, for the docs.
const LOAN: &str = "\
    Lends memory of `bytes` bytes for a `bytes` field of a request. Write it, freeze it, and put \
    it into the request: it is passed by reference if the mechanism can, and copied otherwise.";

/// Generates the docs of the functions that lend memory: without options, and with them.
pub(crate) fn loan_docs(names: &CallerNames) -> [String; 2] {
    let loan = join(&[
        &paragraph(LOAN),
        &paragraph("Waits until the server has returned enough of what it was lent before."),
        &names.loan.note(),
        &errors(docs::LOAN_ERRORS),
    ]);
    let with = join(&[
        &paragraph("Lends memory, and waits until the deadline of `options`."),
        &names.loan_with.note(),
        &errors(&format!("As `{}`.", names.loan)),
    ]);
    [loan, with]
}

/// Generates the functions that lend memory for requests.
fn loans(service: &Service) -> String {
    let names = &service.caller;
    let [loan, with] = loan_docs(names);
    let attempt = join(&[
        &paragraph("Lends memory if there is some now, and does not wait for the server."),
        &names.try_loan.note(),
        &errors(docs::TRY_LOAN_ERRORS),
    ]);
    let result = status_result("::nearcall::Loan");
    format!(
        "{loan}\
         pub fn {}(&self, bytes: usize) -> {result} {{ \
         self.object.loan(bytes) }}\n\
         {with}\
         pub fn {}(&self, bytes: usize, options: &::nearcall::CallOptions) -> {result} {{ \
         self.object.loan_with(bytes, options) }}\n\
         {attempt}\
         pub fn {}(&self, bytes: usize) -> {result} {{ self.object.try_loan(bytes) }}\n",
        names.loan, names.loan_with, names.try_loan
    )
}

/// A method, with all that its functions are generated from.
struct Function<'a> {
    service: &'a Service,
    method: &'a Method,
    types: &'a prost_build::Method,
}

impl Function<'_> {
    fn call(&self) -> String {
        let name = &self.method.name;
        let (input, output) = (&self.types.input_type, &self.types.output_type);
        let (fixed, result) = (self.fixed(), status_result(output));
        let (trait_name, function) = (&self.service.rust_name, &self.method.rust_name);
        let local = match self.service.parts.dispatchers {
            true => format!(
                "|service: &::nearcall::SharedService<dyn {trait_name}>, context| \
                 {trait_name}::{function}(&**service, context, request)"
            ),
            // There is no trait by which a service could be called.
            false => "|service: &::core::convert::Infallible, _| match *service {}".to_owned(),
        };
        let call = self.pair(
            &format!("Calls `{name}` and waits for the reply."),
            &format!("Calls `{name}` with options such as a deadline or metadata."),
            docs::CALL_ERRORS,
            (Some(input), &result),
            &format!("self.object.call(&{fixed}, request, options, {local})"),
        );
        call + &self.start(input, output)
    }

    fn start(&self, input: &str, output: &str) -> String {
        let Method { name, names, .. } = self.method;
        let fixed = self.fixed();
        let pending = format!("::nearcall::PendingCall<{output}>");
        let result = status_result(&pending);
        let start = join(&[
            &paragraph(&format!(
                "Starts a call of `{name}` and returns without waiting for the reply: that is \
                 what `wait` does, or `.await` in this thread. Dropping the pending call cancels \
                 it."
            )),
            &names.start.note(),
        ]);
        let start_with = join(&[
            &paragraph(&format!("Starts a call of `{name}` with options. As `{}`.", names.start)),
            &names.start_with.note(),
        ]);
        let attempt = join(&[
            &paragraph(&format!(
                "As `{}`, and does not wait for room or a free slot.",
                names.start
            )),
            &names.try_start.note(),
            &errors(docs::TRY_START_ERRORS),
        ]);
        let attempt_with = join(&[
            &paragraph(&format!("As `{}`, with options.", names.try_start)),
            &names.try_start_with.note(),
            &errors(&format!("As `{}`.", names.try_start)),
        ]);
        let function = |docs: &str, name: &DerivedName, with: &DerivedName, result: &str| {
            format!(
                "{docs}pub fn {name}(&self, request: &{input}) -> {result} {{\n\
                 self.{with}(request, &::nearcall::CallOptions::new()) }}\n"
            )
        };
        let with = |docs: &str, name: &DerivedName, entry: &str, result: &str| {
            format!(
                "{docs}pub fn {name}(&self, request: &{input}, \
                 options: &::nearcall::CallOptions) -> {result} {{\n\
                 self.object.{entry}(&{fixed}, request, options) }}\n"
            )
        };
        [
            function(&start, &names.start, &names.start_with, &pending),
            with(&start_with, &names.start_with, "start", &pending),
            function(&attempt, &names.try_start, &names.try_start_with, &result),
            with(&attempt_with, &names.try_start_with, "try_start", &result),
        ]
        .concat()
    }

    fn send(&self) -> String {
        let Method { name, names, .. } = self.method;
        let input = &self.types.input_type;
        let (fixed, result) = (self.fixed(), status_result("()"));
        let send = self.pair(
            &format!(
                "Sends `{name}`. Returns when the message is in the channel; there is no reply. \
                 Waits for room until the deadline."
            ),
            &format!("Sends `{name}` with options such as a deadline or metadata."),
            docs::SEND_ERRORS,
            (Some(input), &result),
            &format!("self.object.send(&{fixed}, request, options)"),
        );
        let attempt = join(&[
            &paragraph(&format!("Sends `{name}` if there is room for it now, and fails if not.")),
            &names.attempt.note(),
            &errors(docs::TRY_ERRORS),
        ]);
        let attempt_with = join(&[
            &paragraph(&format!("Sends `{name}` with options if there is room for it now.")),
            &names.attempt_with.note(),
            &errors(&format!("As `{}`.", names.attempt)),
        ]);
        format!(
            "{send}{attempt}\
             pub fn {}(&self, request: &{input}) -> {result} {{\n\
             self.{}(request, &::nearcall::CallOptions::new()) }}\n\
             {attempt_with}\
             pub fn {}(&self, request: &{input}, options: &::nearcall::CallOptions) \
             -> {result} {{\n\
             self.object.try_send(&{fixed}, request, options) }}\n",
            names.attempt, names.attempt_with, names.attempt_with
        )
    }

    fn reply_stream(&self) -> String {
        let name = &self.method.name;
        let (input, output) = (&self.types.input_type, &self.types.output_type);
        let result = status_result(&format!("::nearcall::ReplyStream<{output}>"));
        self.pair(
            &format!(
                "Starts a call of `{name}` and returns the stream of its replies. An error of \
                 the service is the last item. Dropping the stream cancels the call."
            ),
            &format!("Starts a call of `{name}` with options such as a deadline for the stream."),
            docs::START_ERRORS,
            (Some(input), &result),
            &format!("self.object.open_reply_stream(&{}, request, options)", self.fixed()),
        )
    }

    fn request_stream(&self) -> String {
        let name = &self.method.name;
        let (input, output) = (&self.types.input_type, &self.types.output_type);
        let result = status_result(&format!("::nearcall::RequestStream<{input}, {output}>"));
        self.pair(
            &format!(
                "Starts a call of `{name}` and returns the stream of its requests. `finish` ends \
                 it and waits for the reply. Dropping the stream before cancels the call."
            ),
            &format!("Starts a call of `{name}` with options such as a deadline for the stream."),
            docs::START_ERRORS,
            (None, &result),
            &format!("self.object.open_request_stream(&{}, options)", self.fixed()),
        )
    }

    fn both_streams(&self) -> String {
        let name = &self.method.name;
        let (input, output) = (&self.types.input_type, &self.types.output_type);
        let result = status_result(&format!(
            "(::nearcall::RequestStream<{input}, ()>, ::nearcall::ReplyStream<{output}>)"
        ));
        self.pair(
            &format!(
                "Starts a call of `{name}` and returns its two streams, which two threads may \
                 use. `finish` of the requests ends them; the end of the replies has the status \
                 of the call. Dropping the replies, or the requests before `finish`, cancels the \
                 call."
            ),
            &format!("Starts a call of `{name}` with options such as a deadline for the streams."),
            docs::START_ERRORS,
            (None, &result),
            &format!("self.object.open_both_streams(&{}, options)", self.fixed()),
        )
    }

    /// Generates the function with the name of the method, and that with options, which has
    /// `body`. `types`: the request, if there is one, and the result.
    ///
    /// The function with options of a unary call is always inlined: the other one is then compiled
    /// for the default options, and one that no program calls is no code at all.
    fn pair(
        &self,
        summary: &str,
        with_summary: &str,
        errors_text: &str,
        types: (Option<&String>, &str),
        body: &str,
    ) -> String {
        let Method { rust_name, names, .. } = self.method;
        let (request, result) = types;
        let docs = join(&[
            &docs::comment(&self.types.comments),
            &paragraph(summary),
            &docs::options(self.method),
            &errors(errors_text),
        ]);
        let with_docs = join(&[
            &paragraph(with_summary),
            &names.with.note(),
            &errors(&format!("As `{rust_name}`.")),
        ]);
        let declared = request.map_or(String::new(), |input| format!("request: &{input}"));
        let passed = request.map_or("", |_| "request, ");
        let comma = request.map_or("", |_| ", ");
        let inline = if self.method.kind == Kind::Unary { "#[inline(always)]\n" } else { "" };
        format!(
            "{docs}\
             pub fn {rust_name}(&self, {declared}) -> {result} {{\n\
             self.{}({passed}&::nearcall::CallOptions::new()) }}\n\
             {with_docs}{inline}\
             pub fn {}(&self, {declared}{comma}options: &::nearcall::CallOptions) \
             -> {result} {{\n\
             {body} }}\n",
            names.with, names.with
        )
    }

    fn fixed(&self) -> String {
        method_static(self.service, self.method)
    }
}
