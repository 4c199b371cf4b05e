//! Which runs a page is made of.

use std::fs;

use super::*;

#[test]
fn newest_run_of_each_kind_is_the_default() {
    let place = place();
    let runs = ".local/state/fullbore/runs";
    let mut ladder = json(LADDER);
    for (second, label) in [("10", "older"), ("11", "newest")] {
        ladder["label"] = label.into();
        saved(
            place.path(),
            &format!("{runs}/2026-11-21T10-00-{second}Z-ladder/run.json"),
            &ladder,
        );
    }
    saved(
        place.path(),
        &format!("{runs}/2026-11-21T09-00-00Z-sweep/run.json"),
        &json(data("sweep.json")),
    );
    for arguments in [&[][..], &["last"]] {
        let made = run(report(place.path(), arguments));
        assert_eq!(made.status.code(), Some(0), "{made}");
        assert_eq!(made.err, "fullbore: written: report.html\n");
        let page = fs::read_to_string(place.path().join("report.html")).unwrap();
        assert!(page.contains("newest") && !page.contains("older"));
        assert!(page.contains("Buffer size and capacity"));
    }
    let before = run(report(place.path(), &["last~1", "-o", "-"]));
    before.quiet_success();
    assert!(before.out.contains("older") && !before.out.contains("newest"));
    run(report(place.path(), &["last~2", "-o", "-"])).complains(&[1]);
    // The newest was cut short: the one before it is taken, and that is said.
    let newest = place
        .path()
        .join(format!("{runs}/2026-11-21T10-00-11Z-ladder/run.json"));
    fs::write(newest, "{").unwrap();
    let made = run(report(place.path(), &["--chart", "ladder", "--svg", "-"]));
    assert_eq!(made.status.code(), Some(0), "{made}");
    assert!(made.err.contains("cut short"), "{made}");
}

#[test]
fn folder_of_many_hosts_is_grouped_by_kernel_and_cpu() {
    let place = place();
    let mut ladder = json(LADDER);
    for (host, kernel) in [("a", "6.1.0"), ("b", "6.18.0"), ("c", "6.1.0")] {
        ladder["machine"]["kernel"] = kernel.into();
        ladder["label"] = format!("host {host}").into();
        saved(place.path(), &format!("all/{host}/run.json"), &ladder);
    }
    fs::write(place.path().join("all/notes.txt"), "no run").unwrap();
    saved(place.path(), "all/c/other.json", &Value::Null);
    let made = run(report(place.path(), &["all", "-o", "-"]));
    assert_eq!(made.status.code(), Some(0), "{made}");
    assert_eq!(made.err.lines().count(), 1, "{}", made.err);
    assert!(
        made.err
            .starts_with("fullbore: warning: left out: all/c/other.json cannot be read: ")
    );
    let at = |text: &str| made.out.rfind(text).unwrap_or_else(|| panic!("{text}"));
    let groups: Vec<_> = made.out.match_indices("<h2>").collect();
    assert_eq!(groups.len(), 2, "one heading for each kind of machine");
    assert!(at("<h2>AMD EPYC, Linux 6.1.0") < at("<strong>host a"));
    assert!(at("<strong>host a") < at("<strong>host c"));
    assert!(at("<strong>host c") < at("<h2>AMD EPYC, Linux 6.18.0"));
    assert!(at("<h2>AMD EPYC, Linux 6.18.0") < at("<strong>host b"));
}

#[test]
fn flame_graphs_are_drawn_from_the_profile_and_shown_as_images_only() {
    let mut profile = json(data("profile.json"));
    let side = &mut profile["rungs"][0]["sides"][0];
    let deep = "f;".repeat(100_000);
    side["folded"] = serde_json::json!([
        ["main;<script>alert(1)</script>;\u{1b}x\n1", 3],
        ["main;b", u64::MAX],
        [deep, 1],
        ["", 1]
    ]);
    profile["rungs"][0]["sides"][1]["folded"] = Value::Array(Vec::new());
    let place = place();
    let page = page(&[saved(place.path(), "run.json", &profile)]);
    let images = page
        .matches("<img src=\"data:image/svg+xml;base64,")
        .count();
    assert_eq!(images, 3, "one for each side that has call chains");
    assert!(!page.contains("<script") && !page.contains("alert("));
    assert!(page.len() < 500_000, "{}", page.len());
}
