//! On a terminal: its width, also when it changes; several lines; what is typed.

use std::io::Write;
use std::process::{Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use rustix::termios::{Winsize, tcsetwinsize};

use crate::support::{BINARY, PATIENCE, pipe, skip, until};
use crate::tools::{Screen, terminal, view};

fn window(columns: u16) -> Winsize {
    Winsize {
        ws_row: 24,
        ws_col: columns,
        ws_xpixel: 0,
        ws_ypixel: 0,
    }
}

#[test]
fn line_is_as_wide_as_the_window_and_follows_it() {
    let (ours, theirs) = terminal();
    tcsetwinsize(&theirs, window(70)).expect("a window");
    let change = ours.try_clone().expect("a copy");
    let screen = Screen::of(ours);
    let (read_end, mut write_end) = pipe();
    let mut command = view("-i 0.1 -s 1000");
    let mut child = command
        .stdin(read_end)
        .stdout(Stdio::null())
        .stderr(theirs)
        .spawn()
        .expect("a run");
    drop(command);
    write_end.write_all(&[0; 500]).expect("a reader");
    let widths = |shown: &str| -> Vec<usize> {
        let lines = shown.split(['\r', '\n']).map(|l| l.chars().count());
        lines.filter(|&n| n > 0).collect()
    };
    // What comes last may not be all there.
    let has = |width| {
        widths(&screen.so_far())
            .split_last()
            .is_some_and(|(_, w)| w.contains(&width))
    };
    until("a line of 70 columns with half of it done", || {
        has(70) && screen.so_far().contains(" 50% ETA ")
    });
    tcsetwinsize(&change, window(60)).expect("another window");
    until("a line of 60 columns", || has(60));
    drop(write_end);
    assert!(child.wait().expect("its end").success());
    let shown = screen.finish();
    let widths = widths(&shown);
    assert!(
        widths.iter().all(|n| [60, 70].contains(n)),
        "{widths:?} {shown:?}"
    );
    assert!(shown.ends_with("\r\n"), "{shown:?}");
}

/// A terminal of tmux's, without its user's settings.
struct Tmux(tempfile::TempDir);

impl Tmux {
    fn start(script: &str) -> Result<Self, String> {
        let tmux = Self(tempfile::tempdir().expect("a directory"));
        let run = tmux
            .command(&[
                "-f",
                "/dev/null",
                "new-session",
                "-d",
                "-x",
                "60",
                "-y",
                "12",
                "sh",
            ])
            .status();
        match run {
            Ok(status) if status.success() => {}
            Ok(_) => return Err("tmux does not start".into()),
            Err(why) => return Err(format!("tmux does not run: {why}")),
        }
        let line = format!("PS1='$ '; clear; {script}");
        assert!(
            tmux.command(&["send-keys", &line, "Enter"])
                .status()
                .is_ok_and(|s| s.success())
        );
        Ok(tmux)
    }

    fn command(&self, words: &[&str]) -> Command {
        let mut command = Command::new("tmux");
        command
            .arg("-S")
            .arg(self.0.path().join("socket"))
            .args(words);
        command.env_remove("TMUX").stderr(Stdio::null());
        command.env("XDG_RUNTIME_DIR", self.0.path());
        command
    }

    fn screen(&self) -> String {
        let out = self
            .command(&["capture-pane", "-p"])
            .output()
            .expect("the screen");
        String::from_utf8_lossy(&out.stdout).into_owned()
    }

    fn shows(&self, what: &str, is_there: impl Fn(&str) -> bool) -> String {
        let since = Instant::now();
        loop {
            let screen = self.screen();
            if is_there(&screen) {
                return screen;
            }
            assert!(since.elapsed() < PATIENCE, "not {what}:\n{screen}");
            thread::sleep(Duration::from_millis(20));
        }
    }
}

impl Drop for Tmux {
    fn drop(&mut self) {
        let _ = self.command(&["kill-server"]).status();
    }
}

#[test]
fn several_in_one_pipeline_keep_to_their_lines() {
    let script = format!(
        "head -c 300000 /dev/zero | {BINARY} view -cN in -i 0.1 -L 300000 | {BINARY} view -cN out -i 0.1 > /dev/null; echo done"
    );
    let tmux = match Tmux::start(&script) {
        Ok(tmux) => tmux,
        Err(why) => return skip(why),
    };
    let screen = tmux.shows("done", |s| s.lines().any(|l| l == "done"));
    let of = |name: &str| -> Vec<&str> {
        screen
            .lines()
            .filter(|l| l.trim_start().starts_with(name))
            .collect()
    };
    let (input, output) = (of("in:"), of("out:"));
    assert_eq!((input.len(), output.len()), (1, 1), "{screen}");
    assert!(
        input[0].contains(" 292KiB") && output[0].contains(" 292KiB"),
        "{screen}"
    );
    let place = |line: &str| screen.lines().position(|l| l == line);
    assert!(
        place("done") > place(input[0]) && place("done") > place(output[0]),
        "{screen}"
    );
}

#[test]
fn control_c_typed_at_a_terminal_leaves_a_clean_line() {
    let tmux = match Tmux::start(&format!("sleep 100 | {BINARY} view -i 0.1")) {
        Ok(tmux) => tmux,
        Err(why) => return skip(why),
    };
    tmux.shows("running", |s| s.contains("[0.00  B/s]"));
    assert!(
        tmux.command(&["send-keys", "C-c"])
            .status()
            .is_ok_and(|s| s.success())
    );
    // The prompt is alone in its line.
    let screen = tmux.shows("ended", |s| s.lines().any(|l| l.trim_end() == "$"));
    assert!(screen.contains("[0.00  B/s]"), "{screen}");
}

#[test]
fn in_the_background_nothing_is_shown() {
    let script = format!(
        "head -c 300000 /dev/zero | {BINARY} view -i 0.1 -L 300000 > /dev/null & wait; echo done"
    );
    let tmux = match Tmux::start(&format!("set -m; {script}")) {
        Ok(tmux) => tmux,
        Err(why) => return skip(why),
    };
    let screen = tmux.shows("done", |s| s.lines().any(|l| l == "done"));
    assert!(!screen.contains("KiB/s"), "{screen}");
}
