//! Errors that go further than the function that made them: to another process, or into an error of a whole run.

use fullbore_sys::Error;
use serde::{Deserialize, Serialize};

/// The parts of an error, as one process sends them to another.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Failure {
    what: String,
    why: String,
    #[serde(skip_serializing_if = "String::is_empty", default)]
    what_to_do: String,
    #[serde(skip_serializing_if = "Option::is_none", default)]
    errno: Option<i32>,
}

impl From<&Error> for Failure {
    fn from(error: &Error) -> Self {
        Self {
            what: error.what().to_owned(),
            why: error.why().to_owned(),
            what_to_do: error.what_to_do().to_owned(),
            errno: error.errno(),
        }
    }
}

impl From<Failure> for Error {
    fn from(failure: Failure) -> Self {
        let error = Self::new(failure.what, failure.why, failure.what_to_do);
        match failure.errno {
            Some(errno) => error.with_errno(errno),
            None => error,
        }
    }
}

/// An error of the whole, because of one of its parts: what to do is what that part says, else `what_to_do`.
pub(crate) fn because_of(what: &str, part: &Error, what_to_do: &str) -> Error {
    let why = format!("{}: {}", part.what(), part.why());
    let what_to_do = match part.what_to_do() {
        "" => what_to_do,
        known => known,
    };
    Error::new(what, why, what_to_do)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn error_is_the_same_in_another_process() {
        let odd = "a: b; c (os error 1)";
        for error in [
            Error::system("no pipe", std::io::Error::from_raw_os_error(24), ""),
            Error::new(odd, odd, odd),
            Error::new("no pipe", "too many", ""),
        ] {
            let line = serde_json::to_string(&Failure::from(&error)).unwrap();
            let failure: Failure = serde_json::from_str(&line).unwrap();
            let arrived = Error::from(failure);
            assert_eq!(arrived.to_string(), error.to_string());
            assert_eq!(
                (arrived.what(), arrived.why(), arrived.what_to_do()),
                (error.what(), error.why(), error.what_to_do())
            );
            assert_eq!(arrived.errno(), error.errno());
            assert_eq!(arrived.kind(), error.kind());
            assert_eq!(arrived.is_passing(), error.is_passing());
        }
    }

    #[test]
    fn whole_says_what_its_part_says() {
        let part = Error::new("no pipe", "too many: 5; or 6", "close some");
        let whole = because_of("nothing was measured", &part, "run it again");
        assert_eq!(whole.why(), "no pipe: too many: 5; or 6");
        assert_eq!(whole.what_to_do(), "close some");
        let part = Error::new("no pipe", "too many", "");
        let whole = because_of("nothing was measured", &part, "run it again");
        assert_eq!(
            whole.to_string(),
            "nothing was measured: no pipe: too many; run it again"
        );
    }
}
