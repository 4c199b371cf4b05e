//! The model of the ring against the real kernel: random calls on real pipes, compared one by one.
#![allow(unsafe_code)]

mod support;

use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::io;
use std::os::fd::OwnedFd;
use std::time::Duration;

use fullbore_lab::ring::{Amount, FAT, Op, Outcome, Page, Pipes, Refusal, Step, What, Which};
use fullbore_sys::calls::{self, SpliceFlags};
use fullbore_sys::pages::{PageKind, Pages, Request};
use proptest::prelude::*;
use proptest::test_runner::{Config, RngAlgorithm, TestRunner};
use rustix::event::PollFlags;
use rustix::io::Errno;
use rustix::pipe::PipeFlags;

const SEQUENCES: u32 = 11_000;
const NONBLOCK: SpliceFlags = SpliceFlags::NONBLOCK;

struct RealPipe {
    rx: OwnedFd,
    tx: OwnedFd,
}

impl RealPipe {
    fn new() -> Self {
        let flags = PipeFlags::CLOEXEC | PipeFlags::NONBLOCK;
        let (rx, tx) = rustix::pipe::pipe_with(flags).expect("a pipe");
        Self { rx, tx }
    }

    fn with_slots(slots: usize) -> io::Result<Self> {
        let pipe = Self::new();
        let bytes = slots * rustix::param::page_size();
        rustix::pipe::fcntl_setpipe_size(&pipe.tx, bytes)?;
        Ok(pipe)
    }

    fn drain(&self) {
        let mut buffer = [0; 64 << 10];
        while matches!(calls::read(&self.rx, &mut buffer), Ok(1..)) {}
    }
}

/// What all sequences share: memory to lend and fat slots to hand on.
struct Stock {
    /// What is written, from a place that moves.
    data: Vec<u8>,
    /// The same bytes to lend with vmsplice; never written after it was filled.
    lent: RefCell<Pages>,
    /// Holds whole fat slots, all with the first 32 KiB of `data`.
    master: RealPipe,
    staging: RealPipe,
}

const FAT_SLOTS: usize = 6;

impl Stock {
    fn new() -> Result<Self, String> {
        let mut word = 7_u32;
        let data: Vec<u8> = (0..256 << 10)
            .map(|_| {
                word = word.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
                (word >> 24) as u8
            })
            .collect();
        let mut lent = Pages::map(&Request {
            len: data.len(),
            kind: PageKind::Small,
            lock: false,
            fill: None,
        })
        .map_err(|e| e.to_string())?;
        lent.copy_from_slice(&data);
        let stock = Self {
            data,
            lent: RefCell::new(lent),
            master: RealPipe::new(),
            staging: RealPipe::new(),
        };
        for _ in 0..FAT_SLOTS {
            stock.add_fat_slot()?;
        }
        Ok(stock)
    }

    /// One send of 32 KiB through a socket; when memory is fragmented it becomes several slots, and is tried again.
    fn add_fat_slot(&self) -> Result<(), String> {
        let one_slot = RealPipe::with_slots(1).map_err(|e| e.to_string())?;
        let (master, staging) = (&self.master, &self.staging);
        for _ in 0..100 {
            let mut fat = fullbore_sys::write::fat::Fat::new().map_err(|e| e.to_string())?;
            fat.stage(&self.data[..FAT]).map_err(|e| e.to_string())?;
            fat.deliver(&staging.tx, FAT, NONBLOCK)
                .map_err(|e| e.to_string())?;
            let in_first_slot = calls::tee(&staging.rx, &one_slot.tx, FAT, NONBLOCK);
            one_slot.drain();
            if matches!(in_first_slot, Ok(FAT)) {
                let moved = calls::splice(&staging.rx, &master.tx, FAT, NONBLOCK);
                return moved.map(drop).map_err(|e| e.to_string());
            }
            staging.drain();
        }
        Err("the kernel gives no fat slots".to_owned())
    }

    /// Lends to a pipe.
    fn lend(&self, pipe: &RealPipe, offset: usize, len: usize) -> io::Result<usize> {
        let mut lent = self.lent.borrow_mut();
        let bytes = &mut lent[offset..][..len];
        // SAFETY: these pages were filled once and are never written again, whoever holds them.
        unsafe { calls::vmsplice(&pipe.tx, bytes, NONBLOCK) }
    }

    /// Whether two lent bytes take two slots. Where vmsplice copies, as it may one day, they may share one.
    fn vmsplice_is_by_reference(&self) -> bool {
        let Ok(pipe) = RealPipe::with_slots(1) else {
            return false;
        };
        self.lend(&pipe, 0, 1).is_ok() && self.lend(&pipe, 0, 1).is_err()
    }
}

struct Kernel<'a> {
    stock: &'a Stock,
    first: RealPipe,
    second: RealPipe,
    /// Where the next write takes its bytes.
    cursor: usize,
    /// What every page of the model holds, so that bytes can be compared, too.
    contents: HashMap<Page, Vec<u8>>,
}

impl Kernel<'_> {
    fn pipe(&self, which: Which) -> &RealPipe {
        match which {
            Which::First => &self.first,
            Which::Second => &self.second,
        }
    }

    /// Makes the call, and says what it returned and, of a read, what was read.
    fn call(&self, step: Step, asked: usize) -> (io::Result<usize>, Vec<u8>) {
        let (on, to) = (self.pipe(step.on), self.pipe(step.on.other()));
        let mut got = Vec::new();
        let result = match step.op {
            Op::Write(len) => calls::write(&on.tx, &self.stock.data[self.cursor..][..len]),
            Op::Read(len) => {
                got = vec![0; len]; // unlike resize, this is quick without optimisation, too
                calls::read(&on.rx, &mut got)
            }
            Op::Vmsplice { len, offset } => self.stock.lend(on, offset, len),
            Op::Splice(_) => calls::splice(&on.rx, &to.tx, asked, SpliceFlags::empty()),
            Op::Tee(_) => calls::tee(&on.rx, &to.tx, asked, SpliceFlags::empty()),
            Op::Fat(0) => Ok(0),
            Op::Fat(_) => {
                let (master, staging) = (&self.stock.master, &self.stock.staging);
                let staged = calls::tee(&master.rx, &staging.tx, asked, NONBLOCK);
                assert!(matches!(staged, Ok(n) if n == asked), "{staged:?}");
                let moved = calls::splice(&staging.rx, &on.tx, asked, NONBLOCK);
                staging.drain();
                moved
            }
            Op::Resize(_) => {
                rustix::pipe::fcntl_setpipe_size(&on.tx, asked).map_err(io::Error::from)
            }
        };
        (result, got)
    }

    /// Follows into which page of the model the bytes of a call went.
    fn record(&mut self, step: Step, outcome: &Outcome) {
        let mut from = match step.op {
            Op::Vmsplice { offset, .. } => offset,
            Op::Fat(_) => 0,
            _ => self.cursor,
        };
        for part in &outcome.parts {
            if !matches!(part.what, What::Filled | What::Merged) {
                continue;
            }
            let room = part.len.max(rustix::param::page_size());
            let page = self.contents.entry(part.page);
            let page = page.or_insert_with(|| vec![0; room]);
            let bytes = &self.stock.data[from..][..part.len];
            page[part.offset..][..part.len].copy_from_slice(bytes);
            if !matches!(step.op, Op::Fat(_)) {
                from += part.len;
            }
        }
        if let Op::Write(_) = step.op {
            self.cursor = from % (64 << 10);
        }
    }

    fn expected(&self, outcome: &Outcome) -> Vec<u8> {
        let of = |p: &fullbore_lab::ring::Part| &self.contents[&p.page][p.offset..][..p.len];
        outcome.parts.iter().map(of).collect::<Vec<_>>().concat()
    }
}

fn errno(refusal: Refusal) -> Errno {
    match refusal {
        Refusal::WouldBlock => Errno::AGAIN,
        Refusal::Busy => Errno::BUSY,
        Refusal::Invalid => Errno::INVAL,
    }
}

fn is_ready(fd: &OwnedFd, events: PollFlags) -> bool {
    calls::poll(fd, events, Some(Duration::ZERO)).expect("poll")
}

/// Runs one sequence; says whether this user was allowed to run it to its end.
fn agree(stock: &Stock, slots: [usize; 2], steps: &[Step]) -> Result<bool, TestCaseError> {
    let [Ok(first), Ok(second)] = slots.map(RealPipe::with_slots) else {
        return Ok(false);
    };
    let mut kernel = Kernel {
        stock,
        first,
        second,
        cursor: 0,
        contents: HashMap::new(),
    };
    let mut model = Pipes::new(rustix::param::page_size(), 1);
    for (on, slots) in [(Which::First, slots[0]), (Which::Second, slots[1])] {
        let op = Op::Resize(Amount::Slots(slots));
        model.call(Step { on, op });
    }
    for (i, &step) in steps.iter().enumerate() {
        let told = || format!("step {i}, {step}, of {slots:?} {steps:?}");
        let outcome = model.call(step);
        let (result, got) = kernel.call(step, outcome.asked);
        let real = result.map_err(|e| Errno::from_io_error(&e).expect("an errno"));
        if real == Err(Errno::PERM) {
            return Ok(false); // this user holds more pages in pipes than it may
        }
        let said = match outcome.refusal {
            None => Ok(outcome.moved),
            Some(refusal) => Err(errno(refusal)),
        };
        prop_assert_eq!(real, said, "kernel and model: {}", told());
        kernel.record(step, &outcome);
        if let (Op::Read(_), Ok(n)) = (step.op, real) {
            prop_assert!(got[..n] == kernel.expected(&outcome), "bytes: {}", told());
        }
        for which in [Which::First, Which::Second] {
            let (real, model) = (kernel.pipe(which), model.pipe(which));
            let fionread = calls::bytes_in_pipe(&real.rx).expect("FIONREAD");
            prop_assert_eq!(fionread, model.bytes() as u64, "FIONREAD: {}", told());
            let capacity = rustix::pipe::fcntl_getpipe_size(&real.rx).expect("F_GETPIPE_SZ");
            prop_assert_eq!(capacity, model.capacity(), "capacity: {}", told());
            let readable = is_ready(&real.rx, PollFlags::IN);
            prop_assert_eq!(readable, !model.is_empty(), "readable: {}", told());
            let writable = is_ready(&real.tx, PollFlags::OUT);
            prop_assert_eq!(writable, !model.is_full(), "writable: {}", told());
        }
    }
    Ok(true)
}

fn bytes() -> impl Strategy<Value = usize> {
    let page = rustix::param::page_size();
    prop_oneof![
        3 => 0..=20_usize,
        4 => 1..=page,
        2 => page - 2..=page + 2,
        2 => (1..=3_usize).prop_map(move |n| (n * page).min(100_000)),
        3 => 1..=40_000_usize,
        1 => 40_000..=100_000_usize,
    ]
}

fn amount() -> impl Strategy<Value = Amount> {
    prop_oneof![
        bytes().prop_map(Amount::Bytes),
        (0..6_usize).prop_map(Amount::Slots)
    ]
}

fn op(can_vmsplice: bool) -> impl Strategy<Value = Op> {
    let page = rustix::param::page_size();
    let lend = move |(len, offset)| match can_vmsplice {
        true => Op::Vmsplice { len, offset },
        false => Op::Write(len),
    };
    prop_oneof![
        6 => bytes().prop_map(Op::Write),
        5 => bytes().prop_map(Op::Read),
        3 => (bytes(), 0..page).prop_map(lend),
        4 => amount().prop_map(Op::Splice),
        3 => amount().prop_map(Op::Tee),
        2 => (0..=FAT_SLOTS).prop_map(Op::Fat),
        2 => (0..=32_usize).prop_map(|slots| Op::Resize(Amount::Slots(slots))),
        1 => (0..=200_000_usize).prop_map(|bytes| Op::Resize(Amount::Bytes(bytes))),
    ]
}

#[test]
fn model_and_kernel_agree_in_thousands_of_random_sequences() {
    const NAME: &str = "model_and_kernel_agree_in_thousands_of_random_sequences";
    let stock = match Stock::new() {
        Ok(stock) => stock,
        Err(why) => return support::skip(NAME, why),
    };
    let can_vmsplice = stock.vmsplice_is_by_reference();
    if !can_vmsplice {
        support::skip(
            &format!("{NAME}, vmsplice only"),
            "here it does not lend pages",
        );
    }
    let step = (prop::bool::weighted(0.3), op(can_vmsplice)).prop_map(|(second, op)| Step {
        on: if second { Which::Second } else { Which::First },
        op,
    });
    let slots = || prop::sample::select(&[1_usize, 2, 4, 8, 16]);
    let sequence = ([slots(), slots()], prop::collection::vec(step, 1..24));
    let ended_early = Cell::new(0);
    let mut runner = TestRunner::new(Config {
        cases: SEQUENCES,
        failure_persistence: None,
        rng_algorithm: RngAlgorithm::XorShift, // the default one takes most of the time without optimisation
        ..Config::default()
    });
    let result = runner.run(&sequence, |(slots, steps)| {
        if !agree(&stock, slots, &steps)? {
            ended_early.set(ended_early.get() + 1);
        }
        Ok(())
    });
    if let Err(e) = result {
        panic!("{e}");
    }
    let ended_early = ended_early.get();
    if SEQUENCES - ended_early < 10_000 {
        support::skip(
            NAME,
            format_args!("{ended_early} ended early, as this user may not enlarge pipes"),
        );
    }
}

/// How large a pipe may be is for the kernel's settings to say; that none has more than 2 GiB is in its code.
#[test]
fn capacity_beyond_2_gib_is_invalid() {
    use std::os::fd::AsRawFd;
    let pipe = RealPipe::new();
    let asked = (1_u32 << 31) + 1;
    let (on, op) = (Which::First, Op::Resize(Amount::Bytes(asked as usize)));
    let outcome = Pipes::new(4096, 1).call(Step { on, op });
    assert_eq!(outcome.refusal, Some(Refusal::Invalid));
    // SAFETY: takes no pointers. rustix does not let such a size through.
    let result = unsafe { libc::fcntl(pipe.tx.as_raw_fd(), libc::F_SETPIPE_SZ, asked) };
    let error = io::Error::last_os_error().raw_os_error();
    assert_eq!((result, error), (-1, Some(libc::EINVAL)));
}
