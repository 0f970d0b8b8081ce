//! Placeholder until branch `async` is merged: what generated code names, without function.
#![allow(
    missing_docs,
    missing_debug_implementations,
    unused_variables,
    dead_code,
    reason = "placeholder"
)]
use std::marker::PhantomData;
use std::pin::Pin;
use std::task::{Context, Poll};

use nearcall_channel::Loan;

use crate::address::BadAddress;
use crate::client::Client;
use crate::interface::{Interface, Method};
use crate::options::CallOptions;
use crate::status::Status;

#[derive(Debug, Clone)]
pub struct AsyncObjectRef;
pub struct AsyncCall<'a, Q, R>(PhantomData<(&'a Q, fn() -> R)>);
pub struct AsyncSend<'a, Q>(PhantomData<&'a Q>);
impl<Q, R> Future for AsyncCall<'_, Q, R> {
    type Output = Result<R, Status>;
    fn poll(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Self::Output> {
        unreachable!("placeholder")
    }
}
impl<Q> Future for AsyncSend<'_, Q> {
    type Output = Result<(), Status>;
    fn poll(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Self::Output> {
        unreachable!("placeholder")
    }
}
impl AsyncObjectRef {
    pub fn new(
        client: &Client,
        interface: &'static Interface,
        address: &str,
    ) -> Result<Self, BadAddress> {
        let _: crate::Address = address.parse()?;
        Ok(Self)
    }
    pub fn call<'a, Q, R>(
        &'a self,
        method: &'static Method,
        request: &'a Q,
        options: Option<&'a CallOptions>,
    ) -> AsyncCall<'a, Q, R> {
        AsyncCall(PhantomData)
    }
    pub fn send<'a, Q>(
        &'a self,
        method: &'static Method,
        request: &'a Q,
        options: Option<&'a CallOptions>,
    ) -> AsyncSend<'a, Q> {
        AsyncSend(PhantomData)
    }
    pub async fn loan(&self, bytes: usize, options: Option<&CallOptions>) -> Result<Loan, Status> {
        unreachable!("placeholder")
    }
}
