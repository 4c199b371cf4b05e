//! One error: what failed, why, and what to do about it.

use std::sync::Arc;
use std::{fmt, io};

use rustix::io::Errno;

/// What failed, why, and what to do: `capacity 4MiB refused: the limit is 1MiB; raise fs.pipe-max-size`.
#[derive(Clone, Debug)]
pub struct Error {
    what: String,
    why: String,
    what_to_do: String,
    source: Option<Arc<io::Error>>,
    may_pass: bool,
}

/// The library's result.
pub type Result<T> = std::result::Result<T, Error>;

impl Error {
    /// An error that the system did not report itself. An empty `what_to_do` is left out of the message.
    pub fn new(
        what: impl Into<String>,
        why: impl Into<String>,
        what_to_do: impl Into<String>,
    ) -> Self {
        Self {
            what: what.into(),
            why: why.into(),
            what_to_do: what_to_do.into(),
            source: None,
            may_pass: false,
        }
    }

    /// An error of a system call; the reason is the system's own. Where descriptors ran out, that is what to do about,
    /// whatever the call was.
    pub fn system(
        what: impl Into<String>,
        error: impl Into<io::Error>,
        what_to_do: impl Into<String>,
    ) -> Self {
        let error = error.into();
        Self {
            what: what.into(),
            why: plain(&error),
            what_to_do: if error.raw_os_error() == Some(Errno::MFILE.raw_os_error()) {
                "raise the limit of open files (ulimit -n)".into()
            } else {
                what_to_do.into()
            },
            may_pass: ran_out(&error),
            source: Some(Arc::new(error)),
        }
    }

    /// The kind of the system's error, `Other` where the system reported none.
    #[must_use]
    pub fn kind(&self) -> io::ErrorKind {
        self.source
            .as_ref()
            .map_or(io::ErrorKind::Other, |e| e.kind())
    }

    /// Whether the same may well succeed later: something ran out, say.
    #[must_use]
    pub fn is_passing(&self) -> bool {
        self.may_pass
    }

    /// The same error, of something that may well succeed later.
    pub(crate) fn that_may_pass(mut self) -> Self {
        self.may_pass = true;
        self
    }
}

/// Whether the same may well succeed later, of an error that may be one of ours.
pub(crate) fn is_passing(error: &io::Error) -> bool {
    let ours = error.get_ref().and_then(|e| e.downcast_ref::<Error>());
    ours.map_or_else(|| ran_out(error), Error::is_passing)
}

fn ran_out(error: &io::Error) -> bool {
    [
        Errno::MFILE,
        Errno::NFILE,
        Errno::NOMEM,
        Errno::NOBUFS,
        Errno::AGAIN,
    ]
    .iter()
    .any(|e| Some(e.raw_os_error()) == error.raw_os_error())
}

/// The system's message without Rust's `(os error N)`.
fn plain(error: &io::Error) -> String {
    let text = error.to_string();
    match text.split_once(" (os error") {
        Some((message, _)) => message.to_owned(),
        None => text,
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.what, self.why)?;
        if !self.what_to_do.is_empty() {
            write!(f, "; {}", self.what_to_do)?;
        }
        Ok(())
    }
}

impl std::error::Error for Error {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        self.source.as_deref().map(|e| e as _)
    }
}

impl From<Error> for io::Error {
    fn from(error: Error) -> Self {
        io::Error::new(error.kind(), error)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_ran_out_may_be_there_later() {
        let system = |errno| Error::system("no pipe", errno, "");
        assert!(system(Errno::MFILE).is_passing());
        assert!(!system(Errno::PERM).is_passing());
        assert!(!Error::new("no pipe", "too many", "").is_passing());
    }

    #[test]
    fn lack_of_descriptors_names_their_limit() {
        let error = Error::system("no pipe", Errno::MFILE, "mount /proc");
        assert!(error.to_string().ends_with("(ulimit -n)"), "{error}");
    }

    #[test]
    fn says_what_why_and_what_to_do_without_errno_numbers() {
        let error = Error::system("capacity 4MiB refused", Errno::PERM, "ask root");
        assert_eq!(
            error.to_string(),
            "capacity 4MiB refused: Operation not permitted; ask root"
        );
        assert_eq!(
            io::Error::from(error).kind(),
            io::ErrorKind::PermissionDenied
        );
    }
}
