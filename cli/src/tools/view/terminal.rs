//! Standard error as a terminal: writing, width, foreground, local time.

use fullbore_sys::calls;
use rustix::event::PollFlags;
use rustix::stdio::stderr;

/// Writes on standard error, all of it, waiting where it must; where that fails nothing is left to tell.
pub fn print(text: &str) {
    let mut rest = text.as_bytes();
    while !rest.is_empty() {
        match calls::write(stderr(), rest) {
            Ok(n) if n > 0 => rest = &rest[n..],
            Err(e) if e.kind() == std::io::ErrorKind::WouldBlock => {
                if calls::poll(stderr(), PollFlags::OUT, None).is_err() {
                    return;
                }
            }
            _ => return,
        }
    }
}

pub fn is_terminal() -> bool {
    rustix::termios::isatty(stderr())
}

/// Columns and rows, where standard error is a terminal that knows them.
fn size() -> Option<(usize, usize)> {
    let size = rustix::termios::tcgetwinsize(stderr()).ok()?;
    Some((size.ws_col.into(), size.ws_row.into()))
}

/// Looked up at every update, so that a change of the window needs no signal.
pub fn width() -> Option<usize> {
    size().map(|s| s.0).filter(|&columns| columns > 0)
}

pub fn height() -> Option<usize> {
    size().map(|s| s.1).filter(|&rows| rows > 0)
}

/// Whether this is the terminal's foreground job; what is in the background would write over others' output.
pub fn in_foreground() -> bool {
    match rustix::termios::tcgetpgrp(stderr()) {
        Ok(group) => group == rustix::process::getpgrp(),
        // No terminal, or not ours to ask.
        Err(_) => true,
    }
}

/// Whether texts may have other characters than those of ASCII, by the locale's variables.
pub fn is_utf8() -> bool {
    ["LC_ALL", "LC_CTYPE", "LANG"]
        .into_iter()
        .find_map(|name| std::env::var(name).ok().filter(|v| !v.is_empty()))
        .is_some_and(|v| v.to_ascii_lowercase().replace('-', "").ends_with("utf8"))
}

/// Whether colours may be shown: `NO_COLOR` forbids them, `--force` takes them for granted.
pub fn has_colour(force: bool) -> bool {
    let set = |name| std::env::var_os(name).is_some_and(|v| !v.is_empty());
    let dumb = std::env::var_os("TERM").is_none_or(|term| term == "dumb" || term.is_empty());
    !set("NO_COLOR") && (force || is_terminal() && !dumb)
}

/// The local time in so many seconds; with the date where that is more than six hours ahead.
pub fn local_time_in(seconds: u64) -> String {
    let format = if seconds > 6 * 3600 {
        "%Y-%m-%d %H:%M:%S"
    } else {
        "%H:%M:%S"
    };
    let ahead = std::time::Duration::from_secs(seconds);
    let then = jiff::Timestamp::now().checked_add(ahead);
    then.map_or_else(
        |_| String::new(),
        |then| {
            then.to_zoned(jiff::tz::TimeZone::system())
                .strftime(format)
                .to_string()
        },
    )
}
