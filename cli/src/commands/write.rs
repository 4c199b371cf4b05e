//! `fullbore write`: the writing side of the pair, by hand.

use std::process::ExitCode;
use std::time::Instant;

use fullbore_lab::sys;
use fullbore_lab::worker::page_faults::FaultCounter;
use fullbore_lab::worker::side::{Counters, Watch};
use fullbore_lab::worker::writer::Writer;
use fullbore_sys::size::Size;
use fullbore_sys::writer::LARGE;

use super::pair_output::{Deadline, describe, end_when_stuck};
use crate::args::pair::{PairArgs, Side};
use crate::output::failure::{Failure, Outcome, complain, must_be_open};

pub fn run(args: &PairArgs) -> Outcome {
    must_be_open(1)?;
    let config = args.config(Side::Writer).map_err(Failure::Usage)?;
    let limit = args.limit(Side::Writer).map_err(Failure::Usage)?;
    if let Some(cpu) = args.cpu {
        sys::pin_to_cpu(cpu).map_err(Failure::Usage)?;
    }
    let mut faults = None;
    if args.verbose {
        match FaultCounter::start() {
            Ok(counter) => faults = Some(counter),
            Err(e) => complain(&format!("warning: {e}; counted by getrusage instead")),
        }
    }
    let stdout = rustix::stdio::stdout();
    let mut writer = Writer::prepare(&config, stdout, None)?;
    if args.verbose {
        describe("write", &config, &writer.path());
    }
    let counters = match args.seconds {
        Some(seconds) => {
            // What the pipe has taken is in the pipe, so ending in the middle of a call loses nothing of it. What was filled
            // ahead and cannot be sent then has not been written.
            end_when_stuck(seconds, || ExitCode::SUCCESS)?;
            writer.run(limit, &mut UntilDeadline(Deadline::new(seconds)))?
        }
        None => writer.run(limit, &mut fullbore_lab::worker::side::Forever)?,
    };
    let path = writer.path_between(&Counters::default(), &counters);
    // A last piece of a few bytes goes by write(2) anyway.
    let by_write = path.bytes_by.get("write");
    if let Some(left) = path.left(&config.write_with.to_string())
        && by_write >= Some(&(LARGE as u64))
    {
        complain(&format!("warning: write: {left}"));
    }
    if args.verbose {
        let count = faults
            .as_mut()
            .and_then(FaultCounter::count)
            .unwrap_or_else(|| sys::usage().minor_faults);
        complain(&format!(
            "write: {} bytes, {} calls, {} would block, page faults: {count}",
            counters.bytes, counters.calls, counters.would_block
        ));
        for (way, bytes) in &path.bytes_by {
            complain(&format!("write: {} by {way}", Size(*bytes)));
        }
    }
    Ok(())
}

struct UntilDeadline(Deadline);

impl Watch for UntilDeadline {
    fn go_on(&mut self, counters: &Counters) -> bool {
        !self.0.is_over(counters, Instant::now)
    }
}
