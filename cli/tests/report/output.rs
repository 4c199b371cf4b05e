//! Where the result goes, and which results there are.

use std::fs;
use std::process::Stdio;

use super::*;
use crate::support::{Stranger, pipe, skip};

#[test]
fn page_holds_every_chart_table_command_and_sample_and_asks_for_nothing() {
    let page = page(&one_of_each());
    let charts = page.matches("<svg class=\"chart wide\"").count();
    // The ladder in three states, causes, the sweep, bandwidth, round trips, conduits.
    assert_eq!(charts, 8);
    assert_eq!(page.matches("<svg class=\"chart narrow\"").count(), charts);
    for text in [
        "fullbore ladder --rungs write-read,write-read-huge,",
        " --rounds 5 --seconds 0.9 --cpus 0,1 --seed 1795241060653272834 --label &#39;2-CPU KVM guest&#39;",
        "fullbore profile --rungs write-read,fresh-read",
        "fullbore sweep --buf-size 4K,64K,1M --pipe-size 4K,64K --write-with write --read-with read",
        "fullbore bandwidth --rounds 3",
        "fullbore bandwidth --conduits --columns ",
        "The raw samples: 45 trials",
        "Apart, never pooled with the above: trials while the two CPUs were near each other",
        "January 2005, before",
        "data:image/svg+xml;base64,",
    ] {
        let text = text.replace("&#39;", "'");
        assert!(page.contains(&text), "{text}");
    }
    // One row for each trial.
    assert!(page.matches("<tr>").count() > 45);
    for asked in asked_for(&page) {
        assert!(
            asked.starts_with("data:") || asked.starts_with('#'),
            "{asked}"
        );
    }
    assert!(!page.contains("<script"));
}

#[test]
fn one_chart_is_a_picture_in_both_forms() {
    let place = place();
    for (chart, run_of) in [
        ("ladder", LADDER.into()),
        ("causes", data("profile.json")),
        ("sweep", data("sweep.json")),
        ("bandwidth", data("bandwidth.json")),
        ("bandwidth", data("conduits.json")),
        ("latency", data("bandwidth.json")),
    ] {
        for form in [&[][..], &["--narrow"]] {
            let mut command = report(place.path(), &["--chart", chart, "--svg", "-"]);
            command.args(form).arg(&run_of);
            let run = run(command);
            run.quiet_success();
            is_a_picture(&run.out);
        }
    }
}

#[cfg(not(feature = "png"))]
#[test]
fn png_is_refused_with_what_to_do_where_it_was_built_without() {
    let place = place();
    let refused = run(report(
        place.path(),
        &[LADDER, "--chart", "ladder", "--png", "ladder.png"],
    ));
    refused.complains(&[1]);
    assert!(refused.err.contains("--features png"), "{refused}");
    assert_eq!(fs::read_dir(place.path()).unwrap().count(), 0);
}

#[cfg(feature = "png")]
#[test]
fn png_is_drawn_with_a_font_of_its_own() {
    let place = place();
    let mut command = report(
        place.path(),
        &[LADDER, "--chart", "ladder", "--png", "ladder.png"],
    );
    // No font of the system can be found.
    command.env("FONTCONFIG_FILE", "/dev/null");
    let run = run(command);
    assert_eq!(run.status.code(), Some(0), "{run}");
    assert_eq!(run.err, "fullbore: written: ladder.png\n");
    let png = fs::read(place.path().join("ladder.png")).unwrap();
    assert!(png.starts_with(b"\x89PNG\r\n\x1a\n"));
    let width = u32::from_be_bytes(png[16..20].try_into().unwrap());
    assert_eq!(width, 1520);
    // Without letters the same bars compress to a fraction of this.
    assert!(png.len() > 60_000, "{}", png.len());
}

#[test]
fn the_committed_picture_is_of_the_committed_run() {
    let place = place();
    for (file, form) in [("ladder.svg", &[][..]), ("ladder-phone.svg", &["--narrow"])] {
        let pictured = concat!(
            env!("CARGO_MANIFEST_DIR"),
            "/../runs/2026-11-22-epyc-kvm-ahead/ladder.json"
        );
        let mut command = report(place.path(), &[pictured, "--chart", "ladder", "--svg", "-"]);
        command.args(form);
        let run = run(command);
        run.quiet_success();
        let docs = concat!(env!("CARGO_MANIFEST_DIR"), "/../docs");
        let committed = fs::read_to_string(Path::new(docs).join(file)).unwrap();
        let again = form.join(" ");
        assert!(
            run.out == committed,
            "make it again: fullbore report runs/2026-11-22-epyc-kvm-ahead/ladder.json --chart ladder {again} --svg docs/{file}"
        );
    }
}

#[test]
fn page_goes_into_a_whole_file_or_none() {
    let place = place();
    let out = place.path().join("page.html");
    fs::write(&out, "before").unwrap();
    let written = run(report(place.path(), &[LADDER, "-o", "page.html"]));
    assert_eq!(written.status.code(), Some(0), "{written}");
    let page = fs::read_to_string(&out).unwrap();
    assert!(page.starts_with("<!DOCTYPE html>") && page.trim_end().ends_with("</html>"));
    let nowhere = run(report(place.path(), &[LADDER, "-o", "no/such/page.html"]));
    nowhere.complains(&[1]);
    // The page is refused before anything is written: what was there stays.
    run(report(
        place.path(),
        &["no-such-run.json", "-o", "page.html"],
    ))
    .complains(&[1]);
    assert_eq!(fs::read_to_string(&out).unwrap(), page);
    assert_eq!(fs::read_dir(place.path()).unwrap().count(), 1);
}

#[test]
fn user_who_may_not_write_is_told_and_nothing_is_left() {
    let stranger = match Stranger::new() {
        Ok(stranger) if stranger.is_another_user() => stranger,
        Ok(_) => return skip("this user is without privileges already"),
        Err(why) => return skip(why),
    };
    let place = place();
    let mut command = stranger.fullbore("report -o /page.html");
    let run_file = "/dev/stdin";
    command.arg(run_file).current_dir("/");
    let refused = start(command, fs::File::open(LADDER).unwrap(), To::Captured).finish();
    refused.complains(&[1]);
    assert!(!Path::new("/page.html").exists() && !Path::new("/page.html.part").exists());
    drop(place);
}

#[test]
fn reader_who_leaves_early_has_seen_enough() {
    let place = place();
    let (read_end, write_end) = pipe();
    drop(read_end);
    let command = report(place.path(), &[LADDER, "-o", "-"]);
    start(command, Stdio::null(), write_end)
        .finish()
        .quiet_success();
}

#[test]
fn devices_and_links_are_written_through() {
    let place = place();
    run(report(place.path(), &[LADDER, "-o", "/dev/null"]));
    assert!(!Path::new("/dev/null.part").exists());
    let (target, link) = (
        place.path().join("target.html"),
        place.path().join("link.html"),
    );
    std::os::unix::fs::symlink(&target, &link).unwrap();
    run(report(place.path(), &[LADDER, "-o", "link.html"]));
    assert!(fs::symlink_metadata(&link).unwrap().is_symlink());
    assert!(
        fs::read_to_string(&target)
            .unwrap()
            .starts_with("<!DOCTYPE html>")
    );
}

#[test]
fn wrong_lines_are_refused_in_one_line() {
    let place = place();
    for (arguments, code) in [
        (&["--narrow"][..], 2),
        (&["--chart", "pie", "--svg", "a", LADDER], 2),
        (
            &["--chart", "ladder", "--svg", "a", "--png", "b", LADDER],
            2,
        ),
        (&["--chart", "ladder", "--svg", "a", "-o", "b", LADDER], 2),
        (&["--chart", "ladder", LADDER], 2),
        (&["--chart", "ladder", "-o", "a", LADDER], 2),
        // Its earlier form, where --svg named the chart.
        (&["--svg", "ladder", "-o", "a", LADDER], 2),
        (&["--chart", "ladder", "--svg", "a", LADDER, LADDER], 2),
        (&["--chart", "sweep", "--svg", "a", LADDER], 1),
        (&["no-such-run.json"], 1),
        (&["last"], 1),
        (&[], 1),
    ] {
        let refused = run(report(place.path(), arguments));
        refused.complains(&[code]);
        assert_eq!(refused.out, "");
    }
    assert_eq!(fs::read_dir(place.path()).unwrap().count(), 0);
}
