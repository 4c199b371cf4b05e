use super::*;
use crate::machine::state::{LineTravel, State};

fn sample(round: usize, ns_per_page: f64) -> Sample<Costs<f64>> {
    let conditions = Conditions {
        state: State::OneCpu,
        line_travel_ns: LineTravel::default(),
        steal: [None; 2],
    };
    let costs = Costs {
        ns_per_page: Some(ns_per_page),
        ..Costs::default()
    };
    Sample::new(round, conditions, costs)
}

fn rows(small: &[f64], huge: &[f64]) -> Vec<GupRow> {
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
fn cost_of_nothing_or_less_is_below_resolution() {
    let [small, huge] = &rows(&[30.0, 31.0, 30.0], &[-1.88, -0.94, -0.78])[..] else {
        panic!("two rows");
    };
    assert!(!small.is_below_resolution());
    assert!(huge.is_below_resolution());
    assert!(rows(&[0.5, -0.1, 0.7], &[1.0])[0].is_below_resolution());
}
