//! One error: what failed, why, and what to do about it.

use std::borrow::Cow;
use std::sync::Arc;
use std::{fmt, io};

use rustix::io::Errno;

use crate::reason::{FILES, Reason, plain};

/// What failed, why, and what to do: `capacity 4MiB refused: the limit is 1MiB; raise fs.pipe-max-size`.
///
/// Each part can be asked for: [`what`](Self::what), [`why`](Self::why), [`what_to_do`](Self::what_to_do), and the system's
/// number of the error, [`errno`](Self::errno).
#[derive(Clone, Debug)]
pub struct Error(Box<Fields>);

#[derive(Clone, Debug)]
struct Fields {
    what: String,
    why: Cow<'static, str>,
    what_to_do: String,
    reason: Option<Reason>,
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
        Self(Box::new(Fields {
            what: what.into(),
            why: why.into().into(),
            what_to_do: what_to_do.into(),
            reason: None,
            source: None,
            may_pass: false,
        }))
    }

    /// An error for a reason that has a name. It says what to do itself.
    pub fn because(what: impl Into<String>, reason: Reason) -> Self {
        let error = Self::new(what, reason.why(), reason.what_to_do());
        error.with_reason(reason)
    }

    /// An error of the system; what it reports is why. Where descriptors ran out, that is what to do about, whatever the call
    /// was.
    pub fn system(
        what: impl Into<String>,
        error: impl Into<io::Error>,
        what_to_do: impl Into<String>,
    ) -> Self {
        let error = error.into();
        Self(Box::new(Fields {
            what: what.into(),
            why: plain(&error).into(),
            what_to_do: if error.raw_os_error() == Some(Errno::MFILE.raw_os_error()) {
                FILES.into()
            } else {
                what_to_do.into()
            },
            reason: None,
            may_pass: is_passing(&error),
            source: Some(Arc::new(error)),
        }))
    }

    /// As [`system`](Self::system), and the reason says which call it was. Where the error is one of ours that names a reason,
    /// it is that one's.
    pub fn refused(
        what: impl Into<String>,
        call: &'static str,
        error: impl Into<io::Error>,
        what_to_do: impl Into<String>,
    ) -> Self {
        let error = error.into();
        let reason = Reason::of(call, &error);
        let refused = Self::system(what, error, what_to_do);
        if refused.errno().is_some() {
            return refused.with_reason(reason);
        }
        let mut because = Self::because(refused.what(), reason);
        because.0.may_pass = refused.is_passing();
        because.0.source = refused.0.source;
        because
    }

    /// The same error, and the reason as a value.
    pub(crate) fn with_reason(mut self, reason: Reason) -> Self {
        self.0.reason = Some(reason);
        self
    }

    /// The same error with the system's number, of which another process has told.
    #[must_use]
    pub fn with_errno(mut self, errno: i32) -> Self {
        let error = io::Error::from_raw_os_error(errno);
        self.0.may_pass = ran_out(&error);
        self.0.source = Some(Arc::new(error));
        self
    }

    /// What failed.
    #[must_use]
    pub fn what(&self) -> &str {
        &self.0.what
    }

    /// Why, in words.
    #[must_use]
    pub fn why(&self) -> &str {
        &self.0.why
    }

    /// What to do about it; empty where nothing is known.
    #[must_use]
    pub fn what_to_do(&self) -> &str {
        &self.0.what_to_do
    }

    /// Why, as a value, where there is one for it.
    #[must_use]
    pub fn reason(&self) -> Option<&Reason> {
        self.0.reason.as_ref()
    }

    /// The number of the error, where the system reported one.
    #[must_use]
    pub fn errno(&self) -> Option<i32> {
        let of_source = self.0.source.as_ref().and_then(|e| e.raw_os_error());
        of_source.or(match self.0.reason {
            Some(Reason::Refused { errno, .. }) => Some(errno),
            _ => None,
        })
    }

    /// The kind of the system's error, `Other` where the system reported none.
    #[must_use]
    pub fn kind(&self) -> io::ErrorKind {
        self.0
            .source
            .as_ref()
            .map_or(io::ErrorKind::Other, |e| e.kind())
    }

    /// Whether the same may well succeed later: something ran out, say.
    #[must_use]
    pub fn is_passing(&self) -> bool {
        self.0.may_pass
    }

    /// The same error, of something that may well succeed later.
    pub(crate) fn that_may_pass(mut self) -> Self {
        self.0.may_pass = true;
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

impl Reason {
    /// The reason of a system call that has failed. An error that was made from an [`Error`] has that one's reason.
    #[must_use]
    pub fn of(call: &'static str, error: &io::Error) -> Self {
        if let Some(ours) = error.get_ref().and_then(|e| e.downcast_ref::<Error>()) {
            return ours.into();
        }
        let inside = error.get_ref().and_then(|e| e.source());
        let inside = inside.and_then(|e| e.downcast_ref::<io::Error>());
        match inside.unwrap_or(error).raw_os_error() {
            Some(errno) => Self::Refused { call, errno },
            None => Self::Other(format!("{call}: {error}").into()),
        }
    }
}

/// The reason that an error names, or the whole of the error as text where it names none.
impl From<&Error> for Reason {
    fn from(error: &Error) -> Self {
        let text = || Self::Other(error.to_string().into());
        error.reason().cloned().unwrap_or_else(text)
    }
}

impl From<Error> for Reason {
    fn from(error: Error) -> Self {
        Self::from(&error)
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.what(), self.why())?;
        match self.what_to_do() {
            "" => Ok(()),
            what_to_do => write!(f, "; {what_to_do}"),
        }
    }
}

impl std::error::Error for Error {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        self.0.source.as_deref().map(|e| e as _)
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

    #[test]
    fn parts_of_an_error_can_be_asked_for() {
        let error = Error::refused("no lent pages", "vmsplice", Errno::PERM, "ask root");
        assert_eq!(error.what(), "no lent pages");
        assert_eq!(error.why(), "Operation not permitted");
        assert_eq!(error.what_to_do(), "ask root");
        let errno = Errno::PERM.raw_os_error();
        assert_eq!(error.errno(), Some(errno));
        let call = "vmsplice";
        assert_eq!(error.reason(), Some(&Reason::Refused { call, errno }));
        let error = Error::new("no pipe", "too many", "");
        assert_eq!((error.errno(), error.reason()), (None, None));
    }

    #[test]
    fn reason_says_why_and_what_to_do_in_an_error() {
        let error = Error::because("no constant", Reason::NoPipeMemory);
        assert_eq!(
            error.to_string(),
            format!("no constant: {}", Reason::NoPipeMemory)
        );
        assert_eq!(error.reason(), Some(&Reason::NoPipeMemory));
    }

    #[test]
    fn error_inside_another_one_keeps_its_reason_and_number() {
        let inner = Error::refused("no private pipe", "pipe", Errno::NFILE, "");
        let reason = inner.reason().cloned();
        let outer = Error::refused("no constant", "tee", io::Error::other(inner), "");
        assert_eq!(outer.reason(), reason.as_ref());
        assert_eq!(outer.errno(), Some(Errno::NFILE.raw_os_error()));
        assert!(outer.is_passing());
        assert_eq!(
            outer.to_string(),
            format!("no constant: {}", reason.unwrap())
        );
    }

    #[test]
    fn what_ran_out_is_known_through_another_error() {
        let inner = Error::system("no pipe", Errno::MFILE, "");
        let outer = Error::system("no fat slots", io::Error::other(inner), "");
        assert!(outer.is_passing());
    }

    #[test]
    fn error_of_ours_keeps_its_reason_inside_one_of_the_system() {
        let ours = Error::because("no fat slots", Reason::NoPipeMemory);
        let theirs = io::Error::from(ours);
        assert_eq!(Reason::of("splice", &theirs), Reason::NoPipeMemory);
        let untyped = io::Error::from(Error::new("no pattern", "it is empty", "give one"));
        let text = "no pattern: it is empty; give one";
        assert_eq!(Reason::of("splice", &untyped), Reason::Other(text.into()));
    }
}
