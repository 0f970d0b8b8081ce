//! The dispatcher of a service: hands each incoming call to the method that it names.

use crate::interface::{id_literal, interface_static};
use crate::model::{Kind, Method, Service};

/// The struct, its constructors and what the server asks of it.
pub(crate) fn text(service: &Service) -> String {
    let Service { rust_name, .. } = service;
    let interface = interface_static(service);
    // A service with this very name would stand in its own way.
    let t = if rust_name == "T" { "S" } else { "T" };
    let arms: String = service.methods.iter().map(|method| arm(service, method)).collect();
    format!(
        "/// Serves a [`{rust_name}`]: register it in a server.\n\
         pub struct {rust_name}Dispatcher<{t}: {rust_name}> {{\n\
         service: ::std::rc::Rc<{t}>,\n\
         local: ::std::rc::Rc<dyn {rust_name}>,\n\
         }}\n\
         impl<{t}: {rust_name}> {rust_name}Dispatcher<{t}> {{\n\
         /// Takes the service for itself.\n\
         pub fn new(service: {t}) -> Self {{ Self::shared(::std::rc::Rc::new(service)) }}\n\
         /// Shares the service with whoever else holds it.\n\
         pub fn shared(service: ::std::rc::Rc<{t}>) -> Self {{\n\
         Self {{ local: service.clone(), service }} }}\n\
         }}\n\
         impl<{t}: {rust_name}> ::nearcall::Dispatcher for {rust_name}Dispatcher<{t}> {{\n\
         fn interface(&self) -> &'static ::nearcall::Interface {{ &{interface} }}\n\
         fn local(&self) -> &dyn ::core::any::Any {{ &self.local }}\n\
         fn dispatch(&self, incoming: ::nearcall::Incoming<'_>) {{\n\
         match incoming.method() {{\n\
         {arms}\
         _ => incoming.refuse_unknown(),\n\
         }} }}\n\
         }}\n"
    )
}

fn arm(service: &Service, method: &Method) -> String {
    let id = id_literal(method.id);
    let (way, arguments) = match method.kind {
        Kind::Answer => ("answer", "context, request"),
        Kind::AnswerLater => ("answer_later", "context, request, responder"),
        Kind::Oneway => ("take", "context, request"),
    };
    format!(
        "{id} => incoming.{way}(|{arguments}| {}::{}(&*self.service, {arguments})),\n",
        service.rust_name, method.rust_name
    )
}
