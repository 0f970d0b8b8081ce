//! The attribute `#[timed]` of tests that have to end in time.
//!
//! **Invariants:** a test with it is one that the harness knows, with the name, the other
//! attributes and the places in the source that it has without.
//! **Not here:** how long a test may take, and what runs it (`in_time` at the root of a test
//! program).
#![forbid(unsafe_code)]

use proc_macro::{Delimiter, Group, TokenStream, TokenTree};

/// Makes a function a test whose body `crate::in_time` runs: one that hangs fails.
#[proc_macro_attribute]
pub fn timed(_arguments: TokenStream, test: TokenStream) -> TokenStream {
    let mut tokens: Vec<TokenTree> = test.into_iter().collect();
    let body = match tokens.pop() {
        Some(TokenTree::Group(body)) if body.delimiter() == Delimiter::Brace => body,
        _ => return parse("::core::compile_error!{\"`#[timed]` is for functions\"}"),
    };
    let mut closure = parse("move ||");
    closure.extend([TokenTree::Group(body)]);
    let mut call = parse("crate::in_time");
    call.extend([TokenTree::Group(Group::new(Delimiter::Parenthesis, closure))]);
    let mut timed = parse("#[test]");
    timed.extend(tokens);
    timed.extend([TokenTree::Group(Group::new(Delimiter::Brace, call))]);
    timed
}

/// Returns the tokens of a text of this file.
fn parse(text: &str) -> TokenStream {
    text.parse().unwrap_or_default()
}
