//! The figures on the page: each with its caption, its values as a table, and its notes.
//!
//! Always true: whatever a figure shows stands in its table too, for the keyboard, the screen
//! reader and paper. What is drawn, and of which cells, is in `report/figure.rs`.

use maud::{Markup, html};

/// x
pub(super) const STYLE: &str = "";
pub(super) enum Shown {}
pub(super) fn all(_hosts: &[crate::report::hosts::Host<'_>]) -> Vec<Shown> { Vec::new() }
pub(super) fn picture(_s: &[Shown]) -> Option<Markup> { None }
pub(super) fn body(_s: &[Shown]) -> Markup { html! {} }
