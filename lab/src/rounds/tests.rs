//! The scheduler without a machine: trials are made up.

use super::*;
use crate::machine::state::{LineTravel, State};

/// Says what each trial gives, by case and by how often that was tried.
struct MadeUp<T> {
    trial: T,
    tried: Vec<usize>,
    order: Vec<usize>,
}

#[derive(Clone, Debug, PartialEq)]
struct Summary {
    rounds_done: usize,
    figures: Vec<Vec<(usize, u32, State)>>,
    refused: Vec<Option<String>>,
    doubts: Vec<Option<String>>,
}

impl<T: FnMut(usize, usize) -> Result<(u32, State)>> Measurement for MadeUp<T> {
    type Figures = u32;
    type Run = Summary;
    const NOTHING: (&'static str, &'static str) = ("nothing was measured", "run it again");

    fn trial(&mut self, case: usize) -> Result<(u32, Conditions)> {
        let tried = self.tried[case];
        self.tried[case] += 1;
        self.order.push(case);
        (self.trial)(case, tried).map(|(figure, state)| {
            let conditions = Conditions {
                state,
                line_travel_ns: LineTravel::default(),
                steal: [None; 2],
            };
            (figure, conditions)
        })
    }

    fn run(&self, rounds_done: usize, measured: &[Measured<u32>]) -> Summary {
        let of = |m: &Measured<u32>| {
            let samples = m.samples.iter();
            samples.map(|s| (s.round, s.figures, s.state)).collect()
        };
        Summary {
            rounds_done,
            figures: measured.iter().map(of).collect(),
            refused: measured.iter().map(Measured::refused).collect(),
            doubts: measured.iter().map(Measured::doubt).collect(),
        }
    }
}

fn made_up<T>(cases: usize, trial: T) -> MadeUp<T> {
    MadeUp {
        trial,
        tried: vec![0; cases],
        order: Vec::new(),
    }
}

fn four_rounds() -> RunOptions {
    RunOptions {
        rounds: 4,
        cpus: (0, 1),
        seed: 7,
        label: None,
        program: PathBuf::new(),
    }
}

fn go_on<R>(_: Event<'_, R>) -> ControlFlow<()> {
    ControlFlow::Continue(())
}

#[test]
fn every_case_runs_once_per_round_in_the_order_of_the_plan() {
    let mut all = made_up(3, |case, tried| {
        Ok((10 * case as u32 + tried as u32, State::Near))
    });
    let mut seen = Vec::new();
    let run = measure(&mut all, 3, &four_rounds(), |event| {
        match event {
            Event::Trial { done, of, case } => seen.push((done, of, case)),
            Event::Round(run) => assert_eq!(seen.len(), 3 * run.rounds_done),
        }
        ControlFlow::Continue(())
    })
    .unwrap();
    let planned: Vec<_> = plan::rounds(3, 4, 7).concat();
    assert_eq!(all.order, planned);
    let numbered = planned.iter().enumerate();
    assert_eq!(
        seen,
        numbered.map(|(i, &case)| (i, 12, case)).collect::<Vec<_>>()
    );
    assert_eq!(run.rounds_done, 4);
    let near = |round, figure| (round, figure, State::Near);
    assert_eq!(
        run.figures[1],
        [near(0, 10), near(1, 11), near(2, 12), near(3, 13)]
    );
}

#[test]
fn what_fails_twice_is_left_out_and_the_rest_goes_on() {
    let mut some = made_up(3, |case, tried| match (case, tried) {
        (0, _) => Err(Error::new("no huge pages", "none are left", "")),
        (1, 1) => Err(Error::new("killed", "out of memory", "")),
        _ => Ok((1, State::Near)),
    });
    let mut last = 0;
    let run = measure(&mut some, 3, &four_rounds(), |event| {
        if let Event::Trial { done, of, .. } = event {
            last = done;
            assert_eq!(of, 12);
        }
        ControlFlow::Continue(())
    })
    .unwrap();
    assert_eq!(some.tried, [FAILURES_ALLOWED, 4, 4]);
    assert!(last >= 9, "trials that are left out count as done: {last}");
    assert_eq!(
        run.refused,
        [Some("no huge pages: none are left".to_owned()), None, None]
    );
    let doubt = "failed trials: 1, the last because killed: out of memory";
    assert_eq!(run.doubts, [None, Some(doubt.to_owned()), None]);
    assert_eq!(
        run.figures[1].iter().map(|f| f.0).collect::<Vec<_>>(),
        [0, 2, 3]
    );
}

#[test]
fn where_everything_fails_there_is_a_reason_and_no_run() {
    let mut none = made_up(3, |case, _| {
        Err(Error::new(format!("case {case}"), "refused", ""))
    });
    let e = measure(&mut none, 3, &four_rounds(), go_on).unwrap_err();
    assert_eq!(
        e.to_string(),
        "nothing was measured: case 0: refused; run it again"
    );
    assert_eq!(none.tried, [FAILURES_ALLOWED; 3]);
}

#[test]
fn an_end_on_request_keeps_what_was_measured() {
    for stop in 0..12 {
        let mut all = made_up(3, |_, _| Ok((1, State::Near)));
        let run = measure(&mut all, 3, &four_rounds(), |event| match event {
            Event::Trial { done, .. } if done == stop => ControlFlow::Break(()),
            _ => ControlFlow::Continue(()),
        })
        .unwrap();
        let kept: usize = run.figures.iter().map(Vec::len).sum();
        assert_eq!((kept, run.rounds_done), (stop, stop / 3));
    }
}

#[test]
fn a_trial_that_fails_because_all_was_interrupted_is_no_failure() {
    let interrupted = std::cell::Cell::new(false);
    let mut all = made_up(3, |_, tried| {
        if tried == 1 {
            interrupted.set(true);
            return Err(Error::new("killed", "by a signal", ""));
        }
        Ok((1, State::Near))
    });
    let run = measure(&mut all, 3, &four_rounds(), |_| match interrupted.get() {
        true => ControlFlow::Break(()),
        false => ControlFlow::Continue(()),
    })
    .unwrap();
    assert_eq!(run.rounds_done, 1);
    assert_eq!(run.doubts, [None, None, None]);
}

#[test]
fn an_end_after_a_round_is_the_end() {
    let mut all = made_up(3, |_, _| Ok((1, State::Near)));
    let run = measure(&mut all, 3, &four_rounds(), |event| match event {
        Event::Round(run) if run.rounds_done == 2 => ControlFlow::Break(()),
        _ => ControlFlow::Continue(()),
    })
    .unwrap();
    assert_eq!((run.rounds_done, all.order.len()), (2, 6));
}

#[test]
fn each_trial_keeps_the_state_that_the_machine_was_in() {
    let mut moving = made_up(1, |_, tried| {
        let state = if tried < 2 { State::Near } else { State::Far };
        Ok((tried as u32, state))
    });
    let run = measure(&mut moving, 1, &four_rounds(), go_on).unwrap();
    let states: Vec<_> = run.figures[0].iter().map(|f| f.2).collect();
    assert_eq!(states, [State::Near, State::Near, State::Far, State::Far]);
}
