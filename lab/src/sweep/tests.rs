use super::*;
use crate::machine::Machine;
use crate::machine::conditions::Conditions;
use crate::machine::state::LineTravel;

fn sample(round: usize, gib_per_s: f64, state: State, trip: Option<f64>) -> Sample<CellFigures> {
    let conditions = Conditions {
        state,
        line_travel_ns: LineTravel::default(),
        steal: [None; 2],
    };
    let figures = CellFigures {
        gib_per_s,
        round_trips: trip.map(|us| RoundTrips {
            count: 100,
            median_us: us,
            p99_us: 3.0 * us,
        }),
    };
    Sample::new(round, conditions, figures)
}

/// A sweep of one buffer size and two capacities, of which these were measured, in so many of three rounds.
fn sweep_of(samples: [Vec<Sample<CellFigures>>; 2], rounds_done: usize) -> Sweep {
    let cell = |capacity| ByState {
        main: Cell::new(4096, capacity, None),
        apart: Vec::new(),
    };
    let mut sweep = Sweep {
        head: Head::new(SCHEMA, None, Machine::detect()),
        method: SweepMethod {
            made: Made {
                cpus: [0, 1],
                rounds: 3,
                rounds_done,
                warm_up_s: WARM_UP_S,
                seed: 1,
            },
            seconds: 0.1,
            write_with: WriteWith::Write,
            read_with: ReadWith::Read,
            pages: PageKind::Small,
            wait: Wait::Block,
            preset: None,
        },
        buffers: vec![4096],
        capacities: vec![4096, 8192],
        prevailing: None,
        cells: vec![cell(4096), cell(8192)],
        warnings: Vec::new(),
    };
    let measured = samples.map(|samples| Measured {
        samples,
        failures: Vec::new(),
    });
    sweep.sum_up(measured.iter().enumerate());
    sweep
}

#[test]
fn states_are_never_pooled() {
    let near = |round| sample(round, 2.0, State::Near, Some(5.0));
    let mut first: Vec<_> = (0..3).map(near).collect();
    first.push(sample(3, 0.1, State::Far, Some(50.0)));
    let sweep = sweep_of([first, vec![sample(0, 0.2, State::Far, None)]], 3);
    assert_eq!(sweep.state(), Some(State::Near));
    let cell = &sweep.cells[0];
    assert_eq!(
        (cell.state, cell.gib_per_s.unwrap().median),
        (Some(State::Near), 2.0)
    );
    let latency = Latency {
        median: 5.0,
        p99: 15.0,
    };
    assert_eq!(cell.latency_us, Some(latency));
    let far = &cell.apart[0];
    assert_eq!(
        (far.state, far.gib_per_s.unwrap().median),
        (Some(State::Far), 0.1)
    );
    assert_eq!((cell.samples.len(), far.samples.len()), (3, 1));
    // A cell without trials of the prevailing state says which state it is of.
    assert_eq!(sweep.cells[1].state, Some(State::Far));
    assert_eq!(sweep.cells[1].ratio_to_smallest, None, "another state");
    assert!(
        sweep.warnings[0].contains("never pooled"),
        "{:?}",
        sweep.warnings
    );
}

#[test]
fn capacities_are_compared_with_the_smallest_round_by_round() {
    let of = |rate: f64| {
        let near = |round| sample(round, rate + 0.01 * round as f64, State::Near, None);
        (0..9).map(near).collect::<Vec<_>>()
    };
    let sweep = sweep_of([of(2.0), of(6.0)], 3);
    assert_eq!(sweep.cells[0].ratio_to_smallest, None);
    let ratio = sweep.cells[1].ratio_to_smallest.unwrap();
    assert!((2.9..3.0).contains(&ratio.median), "{ratio:?}");
    assert_eq!(sweep.cells[1].verdict, Some(Verdict::Faster));
}

#[test]
fn an_early_end_and_few_trials_are_said() {
    let one = || vec![sample(0, 2.0, State::Near, None)];
    let sweep = sweep_of([one(), one()], 3);
    assert!(sweep.warnings[0].contains("fewer than 3 trials"));
    let sweep = sweep_of([one(), one()], 1);
    assert_eq!(sweep.warnings, ["ended early: 1 of 3 rounds"]);
}

#[test]
fn with_vmsplice_the_capacity_is_half_the_buffer() {
    let ways = |write_with| Methods {
        write_with,
        read_with: ReadWith::Read,
        pages: PageKind::Small,
        wait: Wait::Block,
    };
    let config = ways(WriteWith::Vmsplice).config(8192, 4096, 4096).unwrap();
    assert_eq!(
        (config.pipe_size, config.capacity()),
        (PipeSize::Leave, Some(4096))
    );
    for (buffer, capacity) in [(8192, 8192), (4096, 4096), (0, u64::MAX)] {
        let error = ways(WriteWith::Vmsplice)
            .config(buffer, capacity, 4096)
            .unwrap_err();
        assert!(error.to_string().contains("half the buffer"), "{error}");
    }
    let config = ways(WriteWith::Write).config(100, 4096, 4096).unwrap();
    assert_eq!(config.capacity(), Some(4096));
    assert!(ways(WriteWith::Write).config(0, 4096, 4096).is_err());
}
