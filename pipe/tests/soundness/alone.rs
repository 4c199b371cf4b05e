//! Tests that fork, lock memory or give up privileges have a process of their own: this binary, run again.

use std::process::Command;

/// Set in the process of its own.
const MARK: &str = "FULLBORE_TEST_IS_ALONE";

/// Returns from a test unless it runs alone in its process; where it does not, runs it so and fails if that fails.
macro_rules! alone {
    () => {{
        fn here() {}
        if !$crate::alone::is_alone(std::any::type_name_of_val(&here)) {
            return;
        }
    }};
}

/// `name` is that of a function inside the test's: `soundness::module::test::here`.
pub fn is_alone(name: &str) -> bool {
    if std::env::var_os(MARK).is_some() {
        return true;
    }
    let test = name
        .split_once("::")
        .and_then(|(_, n)| n.strip_suffix("::here"));
    let test = test.expect("the name of a test");
    let this = std::env::current_exe().expect("this binary");
    // One thread, which makes the harness run the test on the main thread: a forked child has all there is.
    let output = Command::new(this)
        .args(["--exact", test, "--nocapture", "--test-threads=1"])
        .env(MARK, "1")
        .output()
        .expect("started");
    let (out, err) = (
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr),
    );
    let ran = output.status.success() && out.contains("1 passed");
    assert!(ran, "{test}, alone: {}\n{out}\n{err}", output.status);
    for line in err.lines().filter(|line| line.starts_with("SKIPPED")) {
        crate::watch::shout(line);
    }
    false
}

/// The figure of a line of /proc/self/status, in kB where it has a unit.
pub fn status(line: &str) -> Option<usize> {
    let text = std::fs::read_to_string("/proc/self/status").ok()?;
    let rest = text
        .lines()
        .find_map(|l| l.strip_prefix(line)?.strip_prefix(':'))?;
    rest.split_whitespace().next()?.parse().ok()
}
