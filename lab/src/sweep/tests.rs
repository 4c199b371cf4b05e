use super::*;
use crate::machine::Machine;

fn sample(round: usize, gib_per_s: f64, state: State, trip: Option<f64>) -> Sample {
    Sample {
        round,
        gib_per_s,
        state,
        line_travel_ns: LineTravel::default(),
        round_trips: trip.map(|us| RoundTrips {
            count: 100,
            median_us: us,
            p99_us: 3.0 * us,
        }),
    }
}

fn sweep_of(cells: Vec<Cell>) -> Sweep {
    let mut sweep = Sweep {
        head: Head::new(SCHEMA, None, Machine::detect()),
        method: Method {
            cpus: [0, 1],
            rounds: 3,
            rounds_done: 3,
            warm_up_s: WARM_UP_S,
            seconds: 0.1,
            seed: 1,
            write_with: WriteWith::Write,
            read_with: ReadWith::Read,
            pages: PageKind::Small,
            wait: Wait::Block,
            preset: None,
        },
        buffers: vec![4096],
        capacities: vec![4096, 8192],
        cells,
        warnings: Vec::new(),
    };
    sweep.summarise();
    sweep
}

#[test]
fn states_are_never_pooled() {
    let mut cell = Cell::new(4096, 4096, None);
    for round in 0..3 {
        cell.samples
            .push(sample(round, 2.0, State::Near, Some(5.0)));
    }
    cell.samples.push(sample(3, 0.1, State::Far, Some(50.0)));
    let mut other = Cell::new(4096, 8192, None);
    other.samples.push(sample(0, 0.2, State::Far, None));
    let sweep = sweep_of(vec![cell, other]);
    let cell = &sweep.cells[0];
    assert_eq!(
        (cell.state, cell.gib_per_s.unwrap().median),
        (Some(State::Near), 2.0)
    );
    assert_eq!(
        cell.latency_us,
        Some(Latency {
            median: 5.0,
            p99: 15.0
        })
    );
    assert_eq!(
        (cell.apart[0].state, cell.apart[0].gib_per_s.median),
        (State::Far, 0.1)
    );
    // A cell without trials of the prevailing state says which state it is of.
    assert_eq!(sweep.cells[1].state, Some(State::Far));
    assert!(
        sweep.warnings[0].contains("never pooled"),
        "{:?}",
        sweep.warnings
    );
}

#[test]
fn an_early_end_and_few_trials_are_said() {
    let mut cell = Cell::new(4096, 4096, None);
    cell.samples.push(sample(0, 2.0, State::Near, None));
    let mut sweep = sweep_of(vec![cell]);
    assert!(sweep.warnings[0].contains("fewer than 3 trials"));
    sweep.method.rounds_done = 1;
    sweep.summarise();
    assert_eq!(sweep.warnings, ["ended early: 1 of 3 rounds"]);
}

#[test]
fn with_vmsplice_the_capacity_is_half_the_buffer() {
    let ways = |write_with| Ways {
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
