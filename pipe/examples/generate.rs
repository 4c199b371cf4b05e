//! Sends a stream of numbers through standard output, as fast as a pipe goes, and sound for every reader.
//!
//! ```text
//! cargo run --release --example generate | head -c 10G | md5sum
//! ```
//!
//! Data is generated in the very pages that the pipe is given: nothing is copied.

use std::io;

/// Bytes that are generated at a time.
const BLOCK: usize = 256 << 10;

fn main() -> io::Result<()> {
    match generate() {
        // The reader has seen enough.
        Err(e) if e.kind() == io::ErrorKind::BrokenPipe => Ok(()),
        other => other,
    }
}

fn generate() -> io::Result<()> {
    let mut out = fullbore::stdout();
    let mut next: u64 = 0;
    loop {
        let mut block = out.block(BLOCK)?;
        for word in block.as_chunks_mut::<8>().0 {
            *word = next.to_le_bytes();
            next += 1;
        }
        block.commit(BLOCK)?;
    }
}
