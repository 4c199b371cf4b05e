//! Puts the commit into `--version`, where the source is a git checkout.

use std::process::Command;

fn main() {
    println!("cargo::rerun-if-changed=../.git/HEAD");
    println!("cargo::rerun-if-changed=../.git/refs/heads");
    let commit = Command::new("git")
        .args(["rev-parse", "--short", "HEAD"])
        .output()
        .ok()
        .filter(|o| o.status.success())
        .and_then(|o| String::from_utf8(o.stdout).ok())
        .map(|hash| format!(" ({})", hash.trim()))
        .unwrap_or_default();
    println!("cargo::rustc-env=FULLBORE_COMMIT={commit}");
}
