//! `fullbore view`, and `pv` through a link: what arrives, what is shown, how it ends. Nothing here asserts a speed.

mod support;

#[path = "view/contents.rs"]
mod contents;
#[path = "view/display.rs"]
mod display;
#[path = "view/ends.rs"]
mod ends;
#[path = "view/limits.rs"]
mod limits;
#[path = "view/others.rs"]
mod others;
#[path = "view/refused.rs"]
mod refused;
#[path = "view/terminal.rs"]
mod terminal;
#[path = "view/tools.rs"]
mod tools;
