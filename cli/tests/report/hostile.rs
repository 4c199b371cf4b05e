//! Saved runs by people who mean no good, and files that came to harm.

use std::fs;

use super::*;

/// Text that would be a script, end an attribute or a style, forge a path, or turn the line around.
pub const EVIL: &str = "</title></style><script>alert(1)</script>\"'><img src=http://127.0.0.1:9/x onerror=alert(2)>&\u{202e}\u{1b}[2J\u{0}]]>";

/// Every text of a run replaced, but for those that have a fixed set of values.
pub fn poison(value: &mut Value, evil: &str) {
    match value {
        Value::Array(values) => values.iter_mut().for_each(|v| poison(v, evil)),
        Value::Object(fields) => {
            for (name, value) in fields {
                let fixed = [
                    "schema",
                    "state",
                    "verdict",
                    "hypervisor",
                    "write_with",
                    "read_with",
                    "pages",
                    "wait",
                    "group",
                    "side",
                    "cause",
                ];
                match value {
                    // A way to wait is a free text in the path of a side, and fixed in the method of a sweep.
                    Value::String(text) if !fixed.contains(&name.as_str()) => *text = evil.into(),
                    _ => poison(value, evil),
                }
            }
        }
        _ => {}
    }
}

#[test]
fn hostile_text_is_shown_and_never_obeyed() {
    let place = place();
    for (kind, path) in ["ladder", "profile", "sweep", "bandwidth", "conduits"]
        .iter()
        .zip(one_of_each())
    {
        let mut document = json(path);
        poison(&mut document, EVIL);
        document["label"] = EVIL.into();
        let path = saved(place.path(), &format!("{kind}.json"), &document);
        let page = page(std::slice::from_ref(&path));
        assert!(
            page.contains("&lt;script&gt;alert(1)&lt;/script&gt;"),
            "{kind}"
        );
        assert!(
            !page.contains("<script") && !page.contains("<img src=http"),
            "{kind}"
        );
        for c in ['\u{1b}', '\0', '\u{202e}'] {
            assert!(!page.contains(c), "{kind}: {c:?}");
        }
        assert_eq!(page.matches("</style>").count(), 1, "{kind}");
        for asked in asked_for(&page) {
            let ours = asked.starts_with("data:")
                || asked.starts_with('#')
                || asked.starts_with("http://127.0.0.1:9");
            assert!(ours, "{asked}");
        }
        let chart = match *kind {
            "profile" => "causes",
            "conduits" => "bandwidth",
            kind => kind,
        };
        // One is enough: a PNG is made of the SVG, and takes a debug build a second.
        let forms = if *kind == "sweep" && cfg!(feature = "png") {
            &["--svg", "--png"][..]
        } else {
            &["--svg"]
        };
        for form in forms {
            let mut command = report(place.path(), &["--chart", chart, *form, "-"]);
            command.arg(&path);
            let run = run(command);
            assert_eq!(run.status.code(), Some(0), "{}", run.err);
            if *form == "--svg" {
                is_a_picture(&run.out);
            }
        }
    }
}

#[test]
fn damaged_and_foreign_files_give_one_clear_line() {
    let place = place();
    let whole = fs::read_to_string(LADDER).unwrap();
    let changed = |change: &dyn Fn(&mut Value)| {
        let mut document = json(LADDER);
        change(&mut document);
        document.to_string()
    };
    for (content, says) in [
        (whole[..whole.len() / 3].to_owned(), "cut short"),
        (String::new(), "cut short"),
        ("\u{1b}[2J<html>".to_owned(), "not JSON"),
        ("[[[[".repeat(50_000), "not JSON"),
        (
            changed(&|d| d["schema"] = "fullbore.ladder/99".into()),
            "use a newer fullbore",
        ),
        (
            changed(&|d| d["rungs"][0]["gib_per_s"]["median"] = 1e308.into()),
            "nothing measures",
        ),
        (
            changed(&|d| d["rungs"][0]["gib_per_s"]["median"] = (-4).into()),
            "no rate is negative",
        ),
        (
            whole.replacen("\"median\": 0", "\"median\": 1e999", 1),
            "not JSON",
        ),
        (
            changed(&|d| {
                d.as_object_mut().unwrap().remove("machine");
            }),
            "missing field `machine`",
        ),
    ] {
        let path = place.path().join("run.json");
        fs::write(&path, content).unwrap();
        let refused = run(report(place.path(), &["run.json", "-o", "page.html"]));
        refused.complains(&[1]);
        assert!(refused.err.contains(says), "{says}: {}", refused.err);
        assert!(
            !refused.err.trim_end().contains(char::is_control),
            "{}",
            refused.err
        );
        assert!(!place.path().join("page.html").exists());
    }
}

/// Numbers that the loader lets pass, since something may be as small or as large, and still no chart breaks.
#[test]
fn odd_numbers_and_missing_results_still_make_a_page() {
    let place = place();
    let mut document = json(LADDER);
    // Ratios of older forms are not believed but made again.
    document["schema"] = "fullbore.ladder/2".into();
    for (i, value) in [0.0, 1e-300, 1e15, 9e14, 5e-324].into_iter().enumerate() {
        let rung = &mut document["rungs"][i];
        rung["gib_per_s"] = serde_json::json!({"median": value, "ci95": [1e15, 0.0]});
        rung["ratio_to_baseline"] = serde_json::json!({"median": -1e15, "ci95": [-1e15, 0.0]});
        rung["ns_per_page"] = (-1.0).into();
    }
    document["rungs"][5]["gib_per_s"] = Value::Null;
    document["rungs"][6]["samples"] = Value::Array(Vec::new());
    document["rungs"][7]["id"] = "x".repeat(100_000).into();
    document["started_unix_s"] = u64::MAX.into();
    let odd = saved(place.path(), "odd.json", &document);
    document["rungs"] = Value::Array(Vec::new());
    let empty = saved(place.path(), "empty.json", &document);
    let mut sweep = json(data("sweep.json"));
    sweep["cells"] = Value::Array(Vec::new());
    let no_cells = saved(place.path(), "sweep.json", &sweep);
    let mut profile = json(data("profile.json"));
    profile["rungs"][0]["sides"][0]["pages"] = 0.0.into();
    profile["rungs"][0]["sides"][1]["runnable_s"] = (-5.0).into();
    profile["rungs"][1]["sides"] = Value::Array(Vec::new());
    let profile = saved(place.path(), "profile.json", &profile);
    let all = [odd, empty, no_cells, profile];
    let page = page(&all);
    assert!(!page.contains("NaN"));
    assert!(
        page.len() < 1_000_000,
        "a name of 100,000 letters is cut: {}",
        page.len()
    );
    for (chart, path) in ["ladder", "ladder", "sweep", "causes"].iter().zip(&all) {
        let mut command = report(place.path(), &["--chart", chart, "--svg", "-"]);
        command.arg(path);
        let run = run(command);
        run.quiet_success();
        is_a_picture(&run.out);
    }
}
