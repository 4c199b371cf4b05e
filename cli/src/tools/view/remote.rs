//! `--remote`: one instance changes what another one shows and how fast it moves.
//!
//! pv leaves a file and sends a signal; that ends a process which is no pv. Here the running instance listens on an
//! abstract socket that carries its process ID, and each side asks the kernel who the other one is. So only instances
//! of `fullbore view` of one user understand each other.

use std::io::{self, BufRead, BufReader, Read, Write};
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixListener, UnixStream};
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use rustix::net::sockopt::socket_peercred;
use serde::{Deserialize, Serialize};

use super::counters::Counters;
use super::options::Options;
use super::screen::{Settings, lock};
use super::voice::{Complaint, Fault};

/// What is to be changed; what is absent stays.
#[derive(Debug, Default, PartialEq, Serialize, Deserialize)]
struct Change {
    format: Option<String>,
    name: Option<String>,
    size: Option<u64>,
    interval: Option<f64>,
    width: Option<usize>,
    height: Option<usize>,
    rate_limit: Option<u64>,
}

const LONGEST: u64 = 64 << 10;
const PATIENCE: Duration = Duration::from_secs(2);
const DONE: &str = "done";

fn address(pid: u32) -> io::Result<SocketAddr> {
    SocketAddr::from_abstract_name(format!("fullbore-view-{pid}"))
}

/// Listens for changes, in a thread of its own. Where that is not possible, nobody can change anything.
pub fn listen(settings: &Arc<Mutex<Settings>>, counters: &Arc<Counters>) {
    let Ok(listener) = address(std::process::id()).and_then(|a| UnixListener::bind_addr(&a)) else {
        return;
    };
    let (settings, counters) = (settings.clone(), counters.clone());
    let _ = std::thread::Builder::new()
        .name("remote".into())
        .spawn(move || {
            for stream in listener.incoming() {
                // One that goes wrong concerns only who sent it.
                let _ = stream.and_then(|stream| serve(&stream, &settings, &counters));
            }
        });
}

fn serve(stream: &UnixStream, settings: &Mutex<Settings>, counters: &Counters) -> io::Result<()> {
    stream.set_read_timeout(Some(PATIENCE))?;
    stream.set_write_timeout(Some(PATIENCE))?;
    if socket_peercred(stream)?.uid != rustix::process::geteuid() {
        return Ok(());
    }
    let mut text = String::new();
    BufReader::new(stream.take(LONGEST)).read_line(&mut text)?;
    let change: Change = serde_json::from_str(&text)?;
    apply(change, &mut lock(settings), counters);
    writeln!(&*stream, "{DONE}")
}

fn apply(change: Change, settings: &mut Settings, counters: &Counters) {
    if let Some(format) = change.format {
        settings.form.set_format(&format);
    }
    if change.name.is_some() {
        settings.form.name = change.name;
    }
    settings.size = change.size.or(settings.size);
    settings.interval = change.interval.unwrap_or(settings.interval);
    settings.width = change.width.or(settings.width);
    settings.height = change.height.or(settings.height);
    if let Some(rate) = change.rate_limit {
        counters.rate_limit.store(rate, Ordering::Relaxed);
    }
}

/// Changes a running instance as the options say.
pub fn change(pid: u32, options: &Options) -> Result<(), Complaint> {
    let named = options.name.is_some();
    let by_switches = options
        .switched
        .then(|| options.switches.format(named, options.numeric));
    let change = Change {
        format: options.format.clone().or(by_switches),
        name: options.name.clone(),
        size: options.size,
        interval: options.interval,
        width: options.width,
        height: options.height,
        rate_limit: (options.rate_limit > 0).then_some(options.rate_limit),
    };
    let failed = |why: io::Error| {
        let what = format!("-R: {pid}");
        let todo =
            "give the process ID of a running `fullbore view` of your own; others do not listen";
        match why.kind() {
            io::ErrorKind::ConnectionRefused | io::ErrorKind::NotFound => {
                Complaint::new(Fault::Remote, what, "no such instance is running", todo)
            }
            _ => Complaint::system(Fault::Remote, what, why, todo),
        }
    };
    send(pid, &change).map_err(failed)
}

fn send(pid: u32, change: &Change) -> io::Result<()> {
    let stream = UnixStream::connect_addr(&address(pid)?)?;
    // Anyone may have taken that name before: it must be of this user and of that process.
    let peer = socket_peercred(&stream)?;
    let is_it = peer.uid == rustix::process::geteuid()
        && u32::try_from(peer.pid.as_raw_nonzero().get()).ok() == Some(pid);
    if !is_it {
        return Err(io::ErrorKind::ConnectionRefused.into());
    }
    stream.set_read_timeout(Some(PATIENCE))?;
    stream.set_write_timeout(Some(PATIENCE))?;
    let text = serde_json::to_string(change)?;
    writeln!(&stream, "{text}")?;
    let mut reply = String::new();
    BufReader::new((&stream).take(LONGEST)).read_line(&mut reply)?;
    if reply.trim_end() == DONE {
        Ok(())
    } else {
        Err(io::Error::other("it does not understand this version"))
    }
}
