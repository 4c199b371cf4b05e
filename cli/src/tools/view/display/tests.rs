use super::*;

fn form(format: &str) -> Form {
    Form {
        pieces: parse(format),
        unit: Unit::Bytes,
        bits: false,
        numeric: false,
        gauge: false,
        name: None,
        style: Style::Plain,
        utf8: true,
        colour: false,
    }
}

fn reading() -> Reading {
    Reading {
        elapsed: 65.4321,
        transferred: 10_000_000,
        rate: 1_048_576.0,
        average: 2_097_152.0,
        percentage: 50.0,
        rate_max: 4_194_304.0,
        left: Some(9),
        stalled: None,
        last: false,
    }
}

fn at(size: Option<u64>) -> Moment {
    Moment {
        size,
        width: 60,
        ..Moment::default()
    }
}

/// As printed by pv.
#[test]
fn default_line_is_pv_s() {
    let switches = Switches {
        progress: true,
        timer: true,
        eta: true,
        rate: true,
        bytes: true,
        ..Switches::default()
    };
    let form = form(&switches.format(false, false));
    let known = form.line(&reading(), &at(Some(20_000_000)));
    assert_eq!(
        known,
        "9.54MiB 0:01:05 [1.00MiB/s] [=====>       ]  50% ETA 0:00:09"
    );
    let last = Reading {
        last: true,
        percentage: 100.0,
        ..reading()
    };
    let last = form.line(&last, &at(Some(10_000_000)));
    assert_eq!(
        last,
        "9.54MiB 0:01:05 [1.00MiB/s] [============>] 100%            "
    );
}

#[test]
fn line_without_size_has_a_moving_indicator() {
    let form = form("%b %t %r %p");
    let unknown = Reading {
        left: None,
        percentage: 0.0,
        ..reading()
    };
    let line = form.line(&unknown, &at(None));
    assert_eq!(
        line,
        "9.54MiB 0:01:05 [1.00MiB/s] [<=>                           ]"
    );
    assert_eq!(columns(&line), 60);
}

#[test]
fn numeric_lines_are_bare_numbers() {
    let mut form = form("%t %b %r %{progress-amount-only}");
    form.numeric = true;
    let line = form.line(&reading(), &at(Some(1)));
    assert_eq!(line, "65.4321 10000000 1048576.0000 50");
    form.bits = true;
    assert_eq!(
        form.line(&reading(), &at(Some(1))),
        "65.4321 80000000 8388608.0000 50"
    );
}

#[test]
fn switches_stand_for_formats() {
    let all = Switches {
        progress: true,
        timer: true,
        eta: true,
        fineta: true,
        rate: true,
        average_rate: true,
        bytes: true,
        buffer_percent: true,
        last_written: 16,
    };
    assert_eq!(all.format(true, false), "%N %b %T %t %r %a %p %e %I %16A");
    assert_eq!(all.format(true, true), "%t %b %r");
    assert_eq!(
        Switches::default().format(false, true),
        "%{progress-amount-only}"
    );
}

#[test]
fn units_names_bits_and_buffers() {
    let mut form = form("%N|%b|%r|%a|%T");
    form.name = Some("in".into());
    let mut at = at(None);
    let shown = form.line(&reading(), &at);
    assert_eq!(shown, "       in:|9.54MiB|[1.00MiB/s]|(2.00MiB/s)|{----}");
    at.buffer_percent = Some(7.0);
    form.bits = true;
    let shown = form.line(&reading(), &at);
    assert_eq!(shown, "       in:|76.3Mib|[8.00Mib/s]|(16.0Mib/s)|{  7%}");
    form.unit = Unit::Lines;
    let shown = form.line(&reading(), &at);
    assert_eq!(shown, "       in:|10.0M|[1.05M/s]|(2.10M/s)|{  7%}");
}

#[test]
fn gauge_shows_the_rate_against_the_highest() {
    let mut form = form("%20p|%{progress-amount-only}");
    form.gauge = true;
    assert_eq!(
        form.line(&reading(), &at(None)),
        "[=>      ]/4.00MiB/s|4.00MiB/s"
    );
    assert_eq!(
        form.line(&reading(), &at(Some(9))),
        "[=====>       ]  50%| 50%"
    );
}

#[test]
fn bars_share_the_room_and_vanish_where_there_is_none() {
    let form = form("%p %p");
    let mut at = at(Some(2));
    at.width = 21;
    assert_eq!(form.line(&reading(), &at), "[>  ]  50% [>  ]  50%");
    at.width = 4;
    assert_eq!(form.line(&reading(), &at), " ");
}

#[test]
fn data_is_shown_printable_and_in_its_width() {
    let form = form("%6A|%5L|%3L");
    let mut at = at(None);
    at.last_written = b"a\n\xffb".to_vec();
    at.previous_line = b"x\tyz".to_vec();
    assert_eq!(form.line(&reading(), &at), "..a..b|x yz |x y");
}

#[test]
fn colours_are_reset_and_take_no_columns() {
    let mut form = form("%{sgr:red}%b%{sgr:reset}%5p");
    assert_eq!(columns("\x1b[31;1m9.54MiB\x1b[0m"), 7);
    form.colour = true;
    let line = form.line(&reading(), &at(None));
    assert_eq!(line, "\x1b[31m9.54MiB\x1b[0m[<=>]\x1b[m");
    form.colour = false;
    assert_eq!(form.line(&reading(), &at(None)), "9.54MiB[<=>]");
}

#[test]
fn line_is_cut_to_the_width_by_cells_and_keeps_its_colours() {
    let mut form = form("%{sgr:red}%N%b%{sgr:reset}");
    form.colour = true;
    form.name = Some("日本語のなまえです".into());
    let mut at = at(None);
    for (width, shown) in [(0, ""), (5, "日本"), (10, "日本語のな")] {
        at.width = width;
        let line = form.line(&reading(), &at);
        assert_eq!(line, format!("\x1b[31m{shown}\x1b[0m\x1b[m"));
        assert!(columns(&line) <= width);
    }
    form.numeric = true;
    assert!(columns(&form.line(&reading(), &at)) > at.width);
}

#[test]
fn name_does_not_command_the_terminal() {
    let mut form = form("%N");
    form.name = Some("\x1b[31mred\r".into());
    assert_eq!(form.line(&reading(), &at(None)), "\\u{1b}[31mred\\r:");
}

#[test]
fn styles_need_utf8() {
    let mut form = form("%{bar-block}");
    let mut at = at(Some(2));
    at.width = 4;
    assert_eq!(form.line(&reading(), &at), "██  ");
    form.utf8 = false;
    assert_eq!(form.line(&reading(), &at), "=>  ");
}
