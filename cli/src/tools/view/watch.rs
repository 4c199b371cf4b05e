//! `--watchfd`: how far another process has come in its files, out of /proc.

mod targets;

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::os::unix::fs::{FileTypeExt, MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use fullbore_lab::show::wrap::columns;

use super::display::{Form, Moment};
use super::format::{FormatPiece, Part};
use super::input;
use super::meter::Meter;
use super::options::Options;
use super::terminal;
use super::voice::{Complaint, Fault};
use targets::{Target, numbers};

/// A file that a process has open.
#[derive(Debug)]
struct Watched {
    link: PathBuf,
    info: PathBuf,
    path: PathBuf,
    /// Device, inode and mode of the link: while they stay, it is the same open file.
    identity: (u64, u64, u32),
    size: Option<u64>,
    began: Instant,
    position: u64,
    meter: Meter,
    closed: Option<Instant>,
}

impl Watched {
    /// Looks at a descriptor. `Ok(None)`: it is neither a file nor a block device.
    fn new(pid: u32, fd: u32, window: u32) -> io::Result<Option<Self>> {
        let link = PathBuf::from(format!("/proc/{pid}/fd/{fd}"));
        let path = fs::read_link(&link)?;
        let (file, own) = (fs::metadata(&link)?, fs::symlink_metadata(&link)?);
        let is_device = file.file_type().is_block_device();
        if !is_device && !file.is_file() {
            return Ok(None);
        }
        let size = if is_device {
            input::device_size(file.rdev())
        } else {
            // One that is being written has no size to be reached.
            (own.permissions().mode() & 0o200 == 0).then_some(file.len())
        };
        let mut watched = Self {
            link,
            info: PathBuf::from(format!("/proc/{pid}/fdinfo/{fd}")),
            path,
            identity: (file.dev(), file.ino(), own.permissions().mode()),
            size,
            began: Instant::now(),
            position: 0,
            meter: Meter::new(window, 0),
            closed: None,
        };
        watched.position = watched.position_now().unwrap_or(0);
        watched.meter = Meter::new(window, watched.position);
        Ok(Some(watched))
    }

    /// Where it stands, or none where it was closed or is another file now.
    fn position_now(&self) -> Option<u64> {
        let (file, own) = (
            fs::metadata(&self.link).ok()?,
            fs::symlink_metadata(&self.link).ok()?,
        );
        if (file.dev(), file.ino(), own.permissions().mode()) != self.identity {
            return None;
        }
        let info = fs::read_to_string(&self.info).ok()?;
        let position = info.lines().find_map(|line| line.strip_prefix("pos:"));
        position?.trim().parse().ok()
    }
}

/// Watches until all of it has ended.
pub fn run(wanted: &[String], options: &Options, form: &Form, complain: &dyn Fn(Complaint)) {
    let mut targets = Vec::new();
    for text in wanted {
        match targets::parse(text) {
            Ok(more) => targets.extend(more),
            Err(e) => return complain(e),
        }
    }
    Watch::new(targets, options, form.clone()).run(complain);
}

struct Watch<'a> {
    targets: Vec<Target>,
    options: &'a Options,
    form: Form,
    /// By process and descriptor.
    watched: BTreeMap<(u32, u32), Watched>,
    /// Lines drawn the last time.
    drawn: usize,
    here: PathBuf,
}

impl<'a> Watch<'a> {
    fn new(targets: Vec<Target>, options: &'a Options, mut form: Form) -> Self {
        let several = targets.len() != 1 || targets[0].fd.is_none();
        let names = |p: &FormatPiece| matches!(p, FormatPiece::Part(Part::Name, _));
        if several && !form.pieces.iter().any(names) {
            form.pieces.insert(0, FormatPiece::Text(" ".into()));
            form.pieces.insert(0, FormatPiece::Part(Part::Name, 0));
        }
        Self {
            targets,
            options,
            form,
            watched: BTreeMap::new(),
            drawn: 0,
            here: std::env::current_dir().unwrap_or_default(),
        }
    }

    fn run(mut self, complain: &dyn Fn(Complaint)) {
        let mut targets = std::mem::take(&mut self.targets);
        targets.retain(|target| match self.look(*target) {
            Ok(()) => true,
            Err(e) => {
                complain(e);
                false
            }
        });
        self.targets = targets;
        let interval = Duration::from_secs_f64(self.options.interval.unwrap_or(1.0));
        let mut next = Instant::now() + interval;
        while !self.has_ended() {
            std::thread::sleep(next.saturating_duration_since(Instant::now()));
            next = (next + interval).max(Instant::now());
            for target in self.targets.clone() {
                if target.fd.is_none() && self.look(target).is_err() {
                    // The process is gone.
                    self.targets.retain(|t| *t != target);
                }
            }
            self.draw();
            self.watched
                .retain(|_, w| w.closed.is_none_or(|at| at.elapsed() <= interval));
        }
        if self.drawn > 0 {
            terminal::print("\n");
        }
    }

    fn has_ended(&self) -> bool {
        let is_open = |target: &Target| match target.fd {
            None => true,
            Some(fd) => self.watched.contains_key(&(target.pid, fd)),
        };
        !self.targets.iter().any(is_open) && self.watched.is_empty()
    }

    /// Begins to watch what the target has open now.
    fn look(&mut self, target: Target) -> Result<(), Complaint> {
        let pid = target.pid;
        let access = |e: io::Error| {
            Complaint::system(
                Fault::Access,
                format!("pid {pid}"),
                e,
                "watch a process of your own that runs",
            )
        };
        let window = self.options.window;
        let Some(fd) = target.fd else {
            let directory = format!("/proc/{pid}/fd");
            for fd in numbers(Path::new(&directory)).map_err(access)? {
                let is_new = self
                    .watched
                    .get(&(pid, fd))
                    .is_none_or(|w| w.closed.is_some());
                if is_new && let Ok(Some(watched)) = Watched::new(pid, fd, window) {
                    self.watched.insert((pid, fd), watched);
                }
            }
            return Ok(());
        };
        fs::metadata(format!("/proc/{pid}")).map_err(access)?;
        let what = format!("pid {pid}: fd {fd}");
        match Watched::new(pid, fd, window) {
            Ok(Some(mut watched)) => {
                watched.size = self.options.size.or(watched.size);
                self.watched.insert((pid, fd), watched);
                Ok(())
            }
            Ok(None) => Err(Complaint::new(
                Fault::Access,
                what,
                "not a regular file or block device",
                "watch one that is",
            )),
            Err(e) => Err(Complaint::system(
                Fault::Access,
                what,
                e,
                "watch one that is open",
            )),
        }
    }

    fn draw(&mut self) {
        let width = self.options.width.or_else(terminal::width).unwrap_or(80);
        let height = self.options.height.or_else(terminal::height).unwrap_or(25);
        let several = self.targets.len() > 1;
        let shows = !self.options.quiet
            && (self.options.numeric || self.options.force || terminal::is_terminal());
        let mut lines = Vec::new();
        for (&(pid, fd), watched) in self.watched.iter_mut().take(height) {
            match watched.position_now() {
                Some(position) if watched.closed.is_none() => watched.position = position,
                _ => {
                    watched.closed.get_or_insert_with(Instant::now);
                }
            }
            let elapsed = watched.began.elapsed().as_secs_f64();
            let reading = watched
                .meter
                .update(elapsed, watched.position, watched.size, false);
            let mut form = self.form.clone();
            form.name = Some(name(pid, fd, &watched.path, &self.here, several, width));
            let moment = Moment {
                size: watched.size,
                width,
                finish_time: reading
                    .left
                    .map_or_else(String::new, terminal::local_time_in),
                ..Moment::default()
            };
            lines.push(form.line(&reading, &moment));
        }
        if !shows || !self.options.force && !self.options.numeric && !terminal::in_foreground() {
            return;
        }
        if self.options.numeric {
            lines
                .iter()
                .for_each(|line| terminal::print(&format!("{line}\n")));
            return;
        }
        let count = lines.len().max(self.drawn);
        if count == 0 {
            return;
        }
        // Lines of files that were closed are wiped out.
        lines.resize(count, String::new());
        let text: Vec<String> = lines
            .iter()
            .map(|line| {
                format!(
                    "{line}{}",
                    " ".repeat(width.saturating_sub(columns(line)).min(if line.is_empty() {
                        width
                    } else {
                        15
                    }))
                )
            })
            .collect();
        let up = if count > 1 {
            format!("\x1b[{}A", count - 1)
        } else {
            String::new()
        };
        terminal::print(&format!("{}\r{up}", text.join("\n")));
        self.drawn = count;
        if self.has_ended() && count > 1 {
            terminal::print(&format!("\x1b[{}B", count - 1));
        }
    }
}

/// Descriptor and path, cut in its middle where it is too long.
fn name(pid: u32, fd: u32, path: &Path, here: &Path, several: bool, width: usize) -> String {
    let path = path.strip_prefix(here).unwrap_or(path).to_string_lossy();
    let room = (width / 2).saturating_sub(if several { 15 } else { 6 });
    let letters: Vec<char> = path.chars().collect();
    let shown = if letters.len() <= room {
        path.into_owned()
    } else {
        let front = room / 4;
        let back = room.saturating_sub(front + 3);
        let begin: String = letters[..front].iter().collect();
        let end: String = letters[letters.len() - back..].iter().collect();
        format!("{begin}...{end}")
    };
    if several {
        format!("{pid:8}:{fd:4}:{shown}")
    } else {
        format!("{fd:4}:{shown}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_paths_are_cut_in_their_middle() {
        let here = Path::new("/home/me");
        assert_eq!(
            name(1, 3, Path::new("/home/me/a"), here, false, 80),
            "   3:a"
        );
        assert_eq!(
            name(17, 3, Path::new("/b"), here, true, 80),
            "      17:   3:/b"
        );
        let cut = name(1, 3, Path::new("/0123456789abcdefghij"), here, false, 40);
        assert_eq!(
            cut,
            "   3:/01...9abcdefghij".replace("9abcdefghij", "cdefghij")
        );
    }
}
