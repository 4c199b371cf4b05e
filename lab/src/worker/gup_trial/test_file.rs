//! gup_test, the kernel's own benchmark: a file in debugfs whose ioctl takes references to pages and times that.
//!
//! Its argument has changed three times, and the request number encodes the argument's size, so that a kernel answers to
//! its own form only: the form is probed, newest first.

use std::fs::File;
use std::io;

use fullbore_sys::{Error, Result};

use super::form::Form;
use crate::sys::gup_pages::{Argument, ioctl};

const DIRECTORY: &str = "/sys/kernel/debug";

impl Form {
    fn argument(self, job: &Request) -> Argument {
        let layout = self.layout();
        let mut argument = Argument([0; Argument::LEN]);
        put(&mut argument, layout.addr, job.address as u64);
        put(&mut argument, layout.size, job.bytes as u64);
        let at = layout.pages_per_call;
        argument.0[at..at + 4].copy_from_slice(&job.pages_per_call.to_ne_bytes());
        argument
    }

    fn timed(self, argument: &Argument) -> Timed {
        let layout = self.layout();
        Timed {
            get_us: number(argument, layout.get_us),
            put_us: layout.put_us.map(|at| number(argument, at)),
            bytes: number(argument, layout.size),
        }
    }
}

fn put(argument: &mut Argument, at: usize, value: u64) {
    argument.0[at..at + 8].copy_from_slice(&value.to_ne_bytes());
}

fn number(argument: &Argument, at: usize) -> u64 {
    let mut bytes = [0; 8];
    bytes.copy_from_slice(&argument.0[at..at + 8]);
    u64::from_ne_bytes(bytes)
}

/// What to take references to.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Request {
    pub(crate) address: usize,
    pub(crate) bytes: usize,
    pub(crate) pages_per_call: u32,
}

/// What the kernel says it took.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Timed {
    /// Whole microseconds to take the references.
    pub(crate) get_us: u64,
    /// Whole microseconds to give them back.
    pub(crate) put_us: Option<u64>,
    /// Bytes that references were taken to.
    pub(crate) bytes: u64,
}

/// Whatever answers to the ioctl: the file, or a simulated kernel in tests.
pub(crate) trait Device {
    fn ioctl(&self, form: Form, argument: &mut Argument) -> io::Result<()>;
}

impl Device for File {
    fn ioctl(&self, form: Form, argument: &mut Argument) -> io::Result<()> {
        loop {
            match ioctl(self, form, argument) {
                Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
                other => return other,
            }
        }
    }
}

/// gup_test as this kernel has it.
#[derive(Debug)]
pub(crate) struct TestFile<D = File> {
    device: D,
    pub(crate) form: Form,
}

impl TestFile {
    /// Opens it and finds out which form it has.
    ///
    /// # Errors
    /// Why it cannot be used here. That is so on most machines.
    pub(crate) fn open() -> Result<Self> {
        let mut refusal = None;
        for name in [Form::Test80, Form::Benchmark120].map(Form::file) {
            let path = format!("{DIRECTORY}/{name}");
            match File::options().read(true).write(true).open(path) {
                Ok(device) => return Self::probe(device, name),
                Err(e) if e.kind() == io::ErrorKind::NotFound => {}
                Err(e) => refusal = Some(e),
            }
        }
        Err(match refusal {
            Some(e) => Error::system(
                "gup_test cannot be opened",
                e,
                "run as root, outside of a container",
            ),
            None => absent(is_mounted(DIRECTORY)),
        })
    }
}

/// Bytes of the request that this kernel's gup_test answers to.
///
/// # Errors
/// Why it cannot be used here.
pub fn size_here() -> Result<usize> {
    TestFile::open().map(|file| file.form.size())
}

/// debugfs is never empty.
fn is_mounted(directory: &str) -> bool {
    std::fs::read_dir(directory).is_ok_and(|mut entries| entries.next().is_some())
}

fn absent(is_debugfs_mounted: bool) -> Error {
    if is_debugfs_mounted {
        let advice = "boot a kernel built with CONFIG_GUP_TEST=y";
        return Error::new("no gup_test", "this kernel was built without it", advice);
    }
    Error::new(
        "no gup_test",
        format!("{DIRECTORY} is empty or may not be read"),
        "as root: mount -t debugfs none /sys/kernel/debug; the kernel needs CONFIG_GUP_TEST=y as well",
    )
}

impl<D: Device> TestFile<D> {
    pub(crate) fn probe(device: D, name: &str) -> Result<Self> {
        let page = [0u8; 1];
        let job = Request {
            address: page.as_ptr() as usize & !(rustix::param::page_size() - 1),
            bytes: rustix::param::page_size(),
            pages_per_call: 1,
        };
        let mut last = io::Error::from(io::ErrorKind::InvalidInput);
        for form in Form::ALL.into_iter().filter(|form| form.file() == name) {
            match device.ioctl(form, &mut form.argument(&job)) {
                Ok(()) => return Ok(Self { device, form }),
                Err(e) => last = e,
            }
        }
        Err(Error::system(
            format!("{name} answers to no form known"),
            last,
            "report the kernel's version",
        ))
    }

    /// Takes references once to all pages of the job.
    ///
    /// # Errors
    /// What the ioctl reports, or that it took none.
    pub(crate) fn time(&self, job: &Request) -> Result<Timed> {
        let mut argument = self.form.argument(job);
        self.device
            .ioctl(self.form, &mut argument)
            .map_err(|e| Error::system("gup_test refused", e, "measure fewer pages"))?;
        match self.form.timed(&argument) {
            timed if timed.bytes == 0 => Err(Error::new(
                "gup_test refused",
                "it took no reference to any page",
                "",
            )),
            timed => Ok(timed),
        }
    }
}

#[cfg(test)]
pub(crate) mod tests;
