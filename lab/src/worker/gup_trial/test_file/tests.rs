use std::cell::Cell;

use rustix::io::Errno;

use super::*;

/// A kernel of one era: knows one request, and times what it is asked to at fixed costs.
pub(crate) struct Kernel {
    form: Form,
    /// Bytes from the start of the address range that are mapped.
    mapped: u64,
    calls: Cell<u32>,
}

pub(crate) const NS_PER_PAGE: u64 = 25;
pub(crate) const PUT_NS_PER_PAGE: u64 = 10;

impl Kernel {
    pub(crate) fn new(form: Form) -> Self {
        Self {
            form,
            mapped: u64::MAX,
            calls: Cell::new(0),
        }
    }
}

impl Device for Kernel {
    fn ioctl(&self, form: Form, argument: &mut Argument) -> io::Result<()> {
        self.calls.set(self.calls.get() + 1);
        if form.request() != self.form.request() {
            return Err(Errno::INVAL.into());
        }
        // What a kernel of this form does, written by offset from its header file.
        let (get, put_at, addr, size, per_call) = match self.form {
            Form::Benchmark32 => (0, None, 8, 16, 24),
            _ => (0, Some(8), 16, 24, 32),
        };
        let per_call = u32::from_ne_bytes(argument.0[per_call..per_call + 4].try_into().unwrap());
        if per_call == 0 || !number(argument, addr).is_multiple_of(4096) {
            return Err(Errno::FAULT.into());
        }
        let got = number(argument, size).min(self.mapped);
        let pages = got / 4096;
        put(argument, get, pages * NS_PER_PAGE / 1000);
        if let Some(at) = put_at {
            put(argument, at, pages * PUT_NS_PER_PAGE / 1000);
        }
        put(argument, size, got);
        // It does not copy back, or look at, more than its own structure.
        assert!(argument.0[self.form.size()..].iter().all(|&b| b == 0));
        Ok(())
    }
}

const JOB: Request = Request {
    address: 1 << 30,
    bytes: 64 << 20,
    pages_per_call: 16,
};

#[test]
fn request_numbers_are_those_of_the_header_files() {
    // _IOWR('g', 1, size), as x86 and ARM encode it.
    let expected: [rustix::ioctl::Opcode; 4] = [0xc050_6701, 0xc048_6701, 0xc078_6701, 0xc020_6701];
    let sizes = Form::ALL.map(Form::size);
    assert_eq!(sizes, [80, 72, 120, 32]);
    if cfg!(any(target_arch = "x86_64", target_arch = "aarch64")) {
        assert_eq!(Form::ALL.map(Form::request), expected);
    }
}

#[test]
fn every_era_is_recognised_and_timed_by_its_own_form() {
    for form in Form::ALL {
        let file = TestFile::probe(Kernel::new(form), form.file()).unwrap();
        assert_eq!(file.form, form);
        let timed = file.time(&JOB).unwrap();
        let pages = 16384;
        assert_eq!(timed.get_us, pages * NS_PER_PAGE / 1000, "{form:?}");
        assert_eq!(timed.bytes, 64 << 20, "{form:?}");
        let put = (form != Form::Benchmark32).then_some(pages * PUT_NS_PER_PAGE / 1000);
        assert_eq!(timed.put_us, put, "{form:?}");
    }
}

#[test]
fn a_form_yet_unknown_is_reported_and_not_guessed_at() {
    let refused = TestFile::probe(Kernel::new(Form::Benchmark32), Form::Test80.file());
    let text = refused.err().unwrap().to_string();
    assert!(text.starts_with("gup_test answers to no form"), "{text}");
    assert!(text.contains("; "), "{text}");
}

#[test]
fn pages_that_were_not_taken_do_not_count() {
    let mut kernel = Kernel::new(Form::Test80);
    kernel.mapped = 4096 * 1000;
    let file = TestFile::probe(kernel, "gup_test").unwrap();
    assert_eq!(file.time(&JOB).unwrap().bytes, 4096 * 1000);
    let mut nothing = Kernel::new(Form::Test80);
    nothing.mapped = 0;
    let file = TestFile::probe(nothing, "gup_test").unwrap();
    assert!(file.time(&JOB).is_err());
    assert_eq!(file.device.calls.get(), 2);
}

#[test]
fn real_file_that_is_no_gup_test_answers_with_an_error() {
    let null = File::options()
        .read(true)
        .write(true)
        .open("/dev/null")
        .unwrap();
    assert!(TestFile::probe(null, "gup_test").is_err());
}

#[test]
fn what_is_missing_is_told_apart() {
    let texts = [true, false].map(|mounted| absent(mounted).to_string());
    assert!(texts[0].contains("CONFIG_GUP_TEST") && !texts[0].contains("mount"));
    assert!(texts[1].contains("mount -t debugfs"));
}
