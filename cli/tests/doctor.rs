//! `fullbore doctor` and `fullbore gup` on machines that lack things. Nothing here asserts a speed.

mod support;

#[path = "doctor/answers.rs"]
mod answers;
#[path = "doctor/manners.rs"]
mod manners;
#[path = "doctor/masked.rs"]
mod masked;
#[path = "doctor/refused.rs"]
mod refused;
