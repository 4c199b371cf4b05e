//! Stops the build with one sentence where Fullbore cannot work.

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    if std::env::var("CARGO_CFG_TARGET_OS").as_deref() != Ok("linux") {
        println!(
            "cargo::error=Fullbore works on Linux only: splice, vmsplice, tee and the pipe's ring exist on no other system."
        );
    }
}
