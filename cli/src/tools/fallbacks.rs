//! What the tools say of routes that would have been better.

use fullbore::{Reason, Route};

/// Which routes were refused, and why, as a part of a sentence; `None` where none was.
pub fn refused(fallbacks: &[(Route, Reason)]) -> Option<String> {
    let each = |(route, reason): &(Route, Reason)| format!("{route} was refused: {reason}");
    let all: Vec<_> = fallbacks.iter().map(each).collect();
    (!all.is_empty()).then(|| all.join(", and "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_route_is_named_with_its_reason() {
        assert_eq!(refused(&[]), None);
        let both = [
            (Route::Relay, Reason::NoPipeMemory),
            (Route::Splice, Reason::NotAPipe),
        ];
        assert_eq!(
            refused(&both).unwrap(),
            format!(
                "splice through a private pipe was refused: {}, and splice was refused: {}",
                Reason::NoPipeMemory,
                Reason::NotAPipe
            )
        );
    }
}
