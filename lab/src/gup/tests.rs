use super::*;

fn sample(round: usize, ns_per_page: f64) -> Sample {
    Sample {
        round,
        timing: Timing {
            ns_per_page,
            beyond_tee_ns_per_page: None,
            vmsplice_ns_per_page: None,
            tee_ns_per_page: None,
            splice_ns_per_page: None,
            put_ns_per_page: None,
        },
    }
}

fn rows(small: &[f64], huge: &[f64]) -> Vec<Row> {
    let samples = |values: &[f64]| {
        let numbered = values.iter().enumerate();
        numbered.map(|(i, &v)| sample(i, v)).collect()
    };
    vec![
        row(PageKind::Small, true, None, samples(small)),
        row(PageKind::Huge, true, None, samples(huge)),
    ]
}

#[test]
fn small_pages_are_compared_with_huge_ones_round_by_round() {
    let ratio = small_to_huge(&rows(&[30.0, 33.0, 30.0], &[10.0, 11.0, 10.0])).unwrap();
    assert!(ratio.is_apart);
    assert_eq!(ratio.ratio.unwrap().median, 3.0);
    // A round that only one of them saw is left out.
    let ratio = small_to_huge(&rows(&[30.0, 33.0, 99.0], &[10.0, 11.0])).unwrap();
    assert_eq!(ratio.ratio.unwrap().ci95, [3.0, 3.0]);
}

#[test]
fn overlapping_intervals_are_not_apart_and_nothing_is_divided_by_nothing() {
    let ratio = small_to_huge(&rows(&[1.0, 5.0, 9.0], &[4.0, 5.0, 6.0])).unwrap();
    assert!(!ratio.is_apart);
    let ratio = small_to_huge(&rows(&[20.0, 21.0, 22.0], &[0.5, -0.1, 0.2])).unwrap();
    assert_eq!((ratio.ratio, ratio.is_apart), (None, false));
    assert_eq!(small_to_huge(&rows(&[20.0], &[])), None);
}

#[test]
fn cost_of_nothing_or_less_is_below_sight() {
    let [small, huge] = &rows(&[30.0, 31.0, 30.0], &[-1.88, -0.94, -0.78])[..] else {
        panic!("two rows");
    };
    assert!(!small.is_below_sight());
    assert!(huge.is_below_sight());
    assert!(rows(&[0.5, -0.1, 0.7], &[1.0])[0].is_below_sight());
}

#[test]
fn this_machine_gives_figures_or_reasons_for_every_case() {
    let options = Options {
        rounds: 2,
        seconds: 0.001,
        seed: 1,
        cpu: None,
    };
    let mut trials = 0;
    let done = |n| {
        trials = n;
        ControlFlow::Continue(())
    };
    let gup = match measure(&options, Machine::detect(), done) {
        Ok(gup) => gup,
        Err(why) => {
            return crate::testing::skip(
                "this_machine_gives_figures_or_reasons_for_every_case",
                why,
            );
        }
    };
    assert_eq!(gup.rows.len(), cases().len());
    assert_eq!(gup.method.rounds_done, 2);
    let measured: usize = gup.rows.iter().map(|r| r.samples.len()).sum();
    assert!(measured <= trials);
    for row in &gup.rows {
        assert!(row.refused.is_some() || row.samples.len() == 2, "{row:?}");
    }
}

#[test]
fn a_break_ends_it_after_the_trial() {
    let options = Options {
        rounds: 100,
        seconds: 0.001,
        seed: 1,
        cpu: None,
    };
    if let Ok(gup) = measure(&options, Machine::detect(), |_| ControlFlow::Break(())) {
        assert_eq!(gup.method.rounds_done, 0);
        assert_eq!(gup.rows.iter().map(|r| r.samples.len()).sum::<usize>(), 1);
    }
}
