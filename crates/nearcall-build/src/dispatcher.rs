//! Generates the dispatcher (server skeleton) of a service: it passes each call to its method.

use crate::interface::{id_literal, interface_static};
use crate::model::{Kind, Method, Service};

/// Generates the struct, its constructors and its `Dispatcher` implementation.
pub(crate) fn text(service: &Service) -> String {
    let Service { rust_name, .. } = service;
    let interface = interface_static(service);
    // A service may have this name itself.
    let t = if rust_name == "T" { "S" } else { "T" };
    let arms: String = service.methods.iter().map(|method| arm(service, method)).collect();
    format!(
        "/// Serves calls with an implementation of [`{rust_name}`]. Register it with a server.\n\
         pub struct {rust_name}Dispatcher<{t}: {rust_name}> {{\n\
         service: ::std::rc::Rc<{t}>,\n\
         local: ::std::rc::Rc<dyn {rust_name}>,\n\
         }}\n\
         impl<{t}: {rust_name}> {rust_name}Dispatcher<{t}> {{\n\
         /// Creates a dispatcher that owns `service`.\n\
         pub fn new(service: {t}) -> Self {{ Self::shared(::std::rc::Rc::new(service)) }}\n\
         /// Creates a dispatcher that shares `service`, so that the program can use it too.\n\
         pub fn shared(service: ::std::rc::Rc<{t}>) -> Self {{\n\
         Self {{ local: service.clone(), service }} }}\n\
         }}\n\
         impl<{t}: {rust_name}> ::nearcall::Dispatcher for {rust_name}Dispatcher<{t}> {{\n\
         fn interface(&self) -> &'static ::nearcall::Interface {{ &{interface} }}\n\
         fn local(&self) -> &dyn ::core::any::Any {{ &self.local }}\n\
         fn dispatch(&self, incoming: ::nearcall::Incoming<'_>) {{\n\
         match incoming.method() {{\n\
         {arms}\
         _ => incoming.unimplemented(),\n\
         }} }}\n\
         }}\n"
    )
}

fn arm(service: &Service, method: &Method) -> String {
    let id = id_literal(method.id);
    let (function, arguments) = match method.kind {
        Kind::Answer => ("reply", "context, request"),
        Kind::AnswerLater => ("reply_later", "context, request, responder"),
        Kind::Oneway => ("oneway", "context, request"),
    };
    format!(
        "{id} => incoming.{function}(|{arguments}| {}::{}(&*self.service, {arguments})),\n",
        service.rust_name, method.rust_name
    )
}
