//! stub
use crate::failure::Outcome;
use clap::Args;
/// Stub.
#[derive(Args, Debug)]
pub struct DoctorArgs {}
pub fn run(_: &DoctorArgs) -> Outcome {
    Ok(())
}
