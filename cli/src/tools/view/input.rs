//! Sizes: of what will be moved, of `-s @FILE`, of devices.

use std::ffi::OsString;
use std::fs::{self, File};
use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::fs::{FileExt, FileTypeExt, MetadataExt};
use std::path::Path;

use rustix::fs::{FileType, Stat};

use super::voice::{Complaint, Fault};

/// The size of a file or device; of a directory, that of all regular files below it.
pub fn size_of(path: &Path) -> Result<u64, Complaint> {
    let failed = |e: io::Error| {
        let what = format!("{}: failed to stat file", path.display());
        Complaint::system(
            Fault::Usage,
            what,
            e,
            "name a file or a directory behind the @",
        )
    };
    let meta = fs::metadata(path).map_err(failed)?;
    if meta.is_dir() {
        return below(path).map_err(failed);
    }
    if meta.file_type().is_block_device() {
        return Ok(device_size(meta.rdev()).unwrap_or(0));
    }
    Ok(meta.len())
}

/// Links are not followed, so that this ends.
fn below(directory: &Path) -> io::Result<u64> {
    let mut sum = 0;
    for entry in fs::read_dir(directory)? {
        let entry = entry?;
        let meta = match entry.metadata() {
            Err(e) if e.kind() == io::ErrorKind::NotFound => continue, // gone since
            other => other?,
        };
        if meta.is_dir() {
            sum += below(&entry.path())?;
        } else if meta.is_file() {
            sum += meta.len();
        }
    }
    Ok(sum)
}

/// Bytes of a block device, as sysfs has it: without opening the device.
pub fn device_size(device: u64) -> Option<u64> {
    let (major, minor) = (rustix::fs::major(device), rustix::fs::minor(device));
    let path = format!("/sys/dev/block/{major}:{minor}/size");
    let sectors: u64 = fs::read_to_string(path).ok()?.trim().parse().ok()?;
    Some(sectors * 512)
}

fn kind(stat: &Stat) -> FileType {
    FileType::from_raw_mode(stat.st_mode)
}

/// What all inputs hold together, where each of them is a file or device of known size.
pub fn total(files: &[OsString]) -> Option<u64> {
    let mut sum = 0;
    for file in files {
        sum += if file == "-" {
            let stat = rustix::fs::fstat(rustix::stdio::stdin()).ok()?;
            size_here(&stat)?
        } else {
            let meta = fs::metadata(file).ok()?;
            rustix::fs::access(file, rustix::fs::Access::READ_OK).ok()?;
            if meta.file_type().is_block_device() {
                device_size(meta.rdev())?
            } else if meta.is_file() {
                meta.len()
            } else {
                return None;
            }
        };
    }
    (sum > 0).then_some(sum)
}

fn size_here(stat: &Stat) -> Option<u64> {
    match kind(stat) {
        FileType::RegularFile => u64::try_from(stat.st_size).ok(),
        FileType::BlockDevice => device_size(stat.st_rdev),
        _ => None,
    }
}

/// The size of the output, where that is a device: no more can be written.
pub fn output_size(output: BorrowedFd<'_>) -> Option<u64> {
    let stat = rustix::fs::fstat(output).ok()?;
    match kind(&stat) {
        FileType::BlockDevice => device_size(stat.st_rdev).filter(|&s| s > 0),
        _ => None,
    }
}

/// Lines of all inputs together, where each of them is a regular file: they are read once for that.
pub fn total_lines(files: &[OsString], separator: u8) -> Option<u64> {
    let mut sum = 0;
    for file in files {
        sum += if file == "-" {
            let stdin = rustix::stdio::stdin().try_clone_to_owned().ok()?;
            lines(&File::from(stdin), separator)?
        } else {
            lines(&File::open(file).ok()?, separator)?
        };
    }
    (sum > 0).then_some(sum)
}

/// Reads at offsets of its own: the file's own offset stays where it is.
fn lines(file: &File, separator: u8) -> Option<u64> {
    if !file.metadata().ok()?.is_file() {
        return None;
    }
    let mut buffer = vec![0; 256 << 10];
    let (mut at, mut sum) = (0, 0);
    loop {
        match file.read_at(&mut buffer, at) {
            Ok(0) => return Some(sum),
            Ok(n) => {
                sum += memchr::memchr_iter(separator, &buffer[..n]).count() as u64;
                at += n as u64;
            }
            Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
            Err(_) => return None,
        }
    }
}

/// Whether the input is the very file that is written into. Then it would never end.
pub fn is_output(input: BorrowedFd<'_>, output: BorrowedFd<'_>) -> io::Result<bool> {
    let (input, output) = (
        rustix::fs::fstat(input)?,
        rustix::fs::fstat(output.as_fd())?,
    );
    let is_file = matches!(kind(&input), FileType::RegularFile | FileType::BlockDevice);
    Ok(is_file && (input.st_dev, input.st_ino) == (output.st_dev, output.st_ino))
}
