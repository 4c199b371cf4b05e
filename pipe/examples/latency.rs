//! How long a block takes from its last byte to a reader that waits, with and without filling ahead:
//!
//! ```text
//! cargo run --release -p fullbore --example latency -- [BLOCKS] [KIB]
//! ```
//!
//! A block of 64 KiB, or so many, is made every half a millisecond, with the time at which it was complete in its first bytes.
//! The reader takes whole blocks and notes how old they are. Prints medians and 90th percentiles in µs, for each way, in turns.

use std::io::Read;
use std::time::{Duration, Instant};

use fullbore_sys::writer::Unbuffered;
use fullbore_sys::writer::Way;

const EVERY: Duration = Duration::from_micros(500);

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut args = std::env::args().skip(1);
    let blocks: usize = args.next().map_or(Ok(2000), |a| a.parse())?;
    let len: usize = args.next().map_or(Ok(64), |a| a.parse())? << 10;
    for _ in 0..3 {
        for way in [Way::Copy, Way::Fat, Way::Fresh, Way::Cow] {
            for ahead in [0, 4 << 20] {
                let mut ages = ages(way, ahead, blocks, len)?;
                ages.sort();
                let us = |part: usize| ages[ages.len() * part / 100].as_secs_f64() * 1e6;
                println!(
                    "{way}, {} MiB ahead: {:.1}, {:.1}",
                    ahead >> 20,
                    us(50),
                    us(90)
                );
            }
        }
    }
    Ok(())
}

fn ages(way: Way, ahead: usize, blocks: usize, len: usize) -> std::io::Result<Vec<Duration>> {
    let (mut reader, pipe) = std::io::pipe()?;
    let epoch = Instant::now();
    let reader = std::thread::spawn(move || {
        let (mut ages, mut block) = (Vec::new(), vec![0; len]);
        while reader.read_exact(&mut block).is_ok() {
            let now = epoch.elapsed();
            let (head, _) = block.split_first_chunk().unwrap_or((&[0; 8], &[]));
            ages.push(now.saturating_sub(Duration::from_nanos(u64::from_le_bytes(*head))));
        }
        ages
    });
    let writer = Unbuffered::new(pipe).with_way(way);
    let mut writer = if ahead > 0 {
        writer.with_ahead(ahead)
    } else {
        writer
    };
    let mut next = Instant::now();
    for _ in 0..blocks {
        next += EVERY;
        while Instant::now() < next {
            std::hint::spin_loop();
        }
        let block = writer.block(len);
        block.fill(1);
        let complete = u64::try_from(epoch.elapsed().as_nanos()).unwrap_or(0);
        block[..8].copy_from_slice(&complete.to_le_bytes());
        writer.commit(len)?;
    }
    drop(writer);
    Ok(reader.join().unwrap_or_default())
}
