use super::*;

#[test]
fn this_machine_is_examined_and_every_complaint_says_why_it_matters() {
    let report = examine(None);
    assert!(report.is_usable);
    let mut ids: Vec<_> = report.checks().map(|check| check.id).collect();
    for check in report.checks() {
        assert!(!check.found.is_empty(), "{check:?}");
        assert!(!check.found.contains('\n'), "{check:?}");
        if matches!(check.state, CheckState::Costs | CheckState::Missing) {
            assert!(check.costs.is_some(), "{check:?}");
            assert!(check.change.is_some(), "{check:?}");
        }
    }
    ids.sort_unstable();
    ids.dedup();
    assert_eq!(
        ids.len(),
        report.checks().count(),
        "an id for each: {ids:?}"
    );
}

#[test]
fn a_state_is_shown_and_saved_in_the_same_word() {
    for state in CheckState::ALL {
        let json = serde_json::to_string(&state).unwrap();
        assert_eq!(json, format!("{:?}", state.word()));
    }
}

#[test]
fn nothing_works_without_what_is_fatal() {
    let fatal = Check::missing("pipe", "refused").fatal();
    assert!(fatal.is_fatal);
    assert!(!Check::missing("tee", "refused").is_fatal);
}
