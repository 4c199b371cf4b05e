//! What the tests of `cat`, `tee` and `yes` share: the comparison with the programs they stand for.

use std::path::Path;
use std::process::{Command, Stdio};

use crate::support::{BINARY, Links, command};

/// A shell line with links of these names first in the path, or Debian's own programs.
pub fn shell(links: Option<&Links>, place: &Path, line: &str) -> (Vec<u8>, String, Option<i32>) {
    let path = match links {
        Some(links) => format!("{}:/usr/bin:/bin", links.path("").display()),
        None => "/usr/bin:/bin".to_owned(),
    };
    let done = command("bash", "")
        .args(["-c", line])
        .current_dir(place)
        .env("PATH", path)
        .env("FULLBORE", BINARY)
        .env("LC_ALL", "C.UTF-8")
        .stdin(Stdio::null())
        .output()
        .expect("bash");
    (
        done.stdout,
        String::from_utf8_lossy(&done.stderr).into_owned(),
        done.status.code(),
    )
}

/// Asserts that the links do what the programs of the system do: output, messages, exit codes.
#[track_caller]
pub fn same_as_the_original(names: &[&str], lines: &[&str]) {
    let version = Command::new("cat").arg("--version").output();
    let gnu = version.is_ok_and(|v| v.stdout.starts_with(b"cat (GNU coreutils) 9."));
    if !gnu {
        crate::support::skip("the system's cat is not GNU's, version 9");
        return;
    }
    let links = Links::new(names);
    for line in lines {
        let place = || tempfile::tempdir().expect("a directory");
        let setup = "printf 'one\\n\\n\\n\\ttwo\\r\\n\\377\\001end' > f; mkdir d; ";
        let line = format!("{setup}{line}");
        let (here, there) = (place(), place());
        let ours = shell(Some(&links), here.path(), &line);
        let theirs = shell(None, there.path(), &line);
        let [our_words, their_words] = [&ours, &theirs].map(|run| one_name_each(&run.1));
        assert_eq!(our_words, their_words, "messages of: {line}");
        assert_eq!(ours.2, theirs.2, "exit code of: {line}");
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        assert!(
            ours.0 == theirs.0,
            "output of: {line}\n{}\ninstead of\n{}",
            text(&ours.0),
            text(&theirs.0)
        );
    }
}

/// The same with one name for the error that C libraries have two for: ours need not be that of the system's programs.
fn one_name_each(messages: &str) -> String {
    messages.replace("I/O error", "Input/output error")
}
