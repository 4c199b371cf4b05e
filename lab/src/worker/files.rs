//! Files in the page cache: `bw_file_rd io_only`, `bw_mmap_rd mmap_only`; and the temporary files they need.

use std::fs::File;
use std::hint::black_box;
use std::io::{self, Write};
use std::os::fd::{AsFd, OwnedFd};

use fullbore_sys::{Error, Result, calls};
use rustix::fs::SeekFrom;

use super::memory_loops;
use super::outcome::{Ready, Report};
use super::stream::{MESSAGE, buffer};
use super::timing::{Time, timed};
use crate::sys::mapping::FileMapping;

/// Reads the file in messages, sums the words of each, and begins again at its end.
pub(crate) fn reread(file: OwnedFd, time: Time, ready: Ready<'_>) -> Result<Report> {
    let mut buffer = buffer(MESSAGE)?;
    rewind(&file).map_err(failed)?;
    ready()?;
    timed(time, || {
        let mut n = calls::read(&file, &mut buffer)?;
        if n == 0 {
            rewind(&file)?;
            n = calls::read(&file, &mut buffer)?;
        }
        let sum = |sum: u64, word: &[u8; 8]| sum.wrapping_add(u64::from_ne_bytes(*word));
        black_box(buffer[..n].as_chunks::<8>().0.iter().fold(0, sum));
        Ok(n)
    })
}

/// Sums the words of the mapped file, again and again.
pub(crate) fn mmap_reread(
    file: OwnedFd,
    bytes: u64,
    time: Time,
    ready: Ready<'_>,
) -> Result<Report> {
    let bytes = usize::try_from(bytes).unwrap_or(usize::MAX);
    let mapping = FileMapping::new(&file, bytes).map_err(failed)?;
    ready()?;
    timed(time, || {
        black_box(memory_loops::sum(mapping.words()));
        Ok(bytes)
    })
}

/// Goes back to the beginning.
pub(crate) fn rewind(file: impl AsFd) -> io::Result<()> {
    rustix::fs::seek(file, SeekFrom::Start(0))?;
    Ok(())
}

fn failed(e: io::Error) -> Error {
    Error::system("the temporary file cannot be used", e, "")
}

/// A file without a name, in the directory for temporary files, whose bytes are in the page cache. The kernel removes it
/// with its last descriptor, however this process ends.
pub(crate) fn temporary(bytes: u64) -> Result<File> {
    let directory = std::env::temp_dir();
    let refused = |e: io::Error| {
        Error::system(
            format!("no temporary file in {}", directory.display()),
            e,
            "set TMPDIR to a directory with some hundred MiB free",
        )
    };
    let mut file = tempfile::tempfile_in(&directory).map_err(refused)?;
    // In pieces as large as those that are read: what was written in smaller ones lies in smaller folios of the page
    // cache, and costs up to twice the time to read.
    let chunk = vec![0x5a; MESSAGE];
    let mut left = bytes;
    while left > 0 {
        let n = left.min(chunk.len() as u64);
        file.write_all(&chunk[..n as usize]).map_err(refused)?;
        left -= n;
    }
    Ok(file)
}

/// The kind of file system a file is on.
pub(crate) fn file_system(file: &File) -> String {
    const KNOWN: [(u32, &str); 12] = [
        (0xef53, "ext4"),
        (0x0102_1994, "tmpfs"),
        (0x5846_5342, "xfs"),
        (0x9123_683e, "btrfs"),
        (0x794c_7630, "overlayfs"),
        (0x2fc1_2fc1, "zfs"),
        (0xf2f5_2010, "f2fs"),
        (0x6969, "nfs"),
        (0x6573_5546, "fuse"),
        (0x0102_1997, "9p"),
        (0xca45_1a4e, "bcachefs"),
        (0x8584_58f6, "ramfs"),
    ];
    let Ok(stat) = rustix::fs::fstatfs(file) else {
        return "unknown".into();
    };
    let magic = stat.f_type as u32;
    let known = KNOWN.iter().find(|(m, _)| *m == magic);
    known.map_or_else(|| format!("{magic:#x}"), |(_, name)| (*name).into())
}

#[cfg(test)]
mod tests {
    use super::super::timing::Until;
    use super::*;

    const SHORT: Time = Time {
        warm_up_s: 0.0,
        until: Some(Until::Seconds(0.001)),
    };

    #[test]
    fn a_file_is_read_beyond_its_end_from_its_beginning_again() {
        const BYTES: u64 = 3 * MESSAGE as u64 + 4096;
        let file = temporary(BYTES).unwrap();
        assert_eq!(rustix::fs::fstat(&file).unwrap().st_nlink, 0, "no name");
        let fd = || OwnedFd::from(file.try_clone().unwrap());
        let report = reread(fd(), SHORT, &mut || Ok(())).unwrap();
        assert!(report.moved().unwrap().bytes > BYTES, "{report:?}");
        let report = mmap_reread(fd(), BYTES, SHORT, &mut || Ok(())).unwrap();
        assert!(report.moved().unwrap().bytes >= BYTES, "{report:?}");
        let longer = mmap_reread(fd(), BYTES + 1, SHORT, &mut || Ok(()));
        assert!(longer.is_err(), "a mapping beyond the end would be fatal");
        assert_ne!(file_system(&file), "unknown");
    }
}
