//! placeholder
#[allow(dead_code)]
#[path = "../src/fizzbuzz/lines.rs"]
mod lines;
#[allow(dead_code)]
#[path = "../src/fizzbuzz/thousands.rs"]
mod thousands;
#[allow(dead_code)]
#[path = "../src/fizzbuzz/vector.rs"]
mod vector;

use std::time::Instant;
fn main() {
    for width in [10usize, 12, 18] {
        for v in [None, vector::Vectors::detect()] {
            let mut t = thousands::Thousands::new(width, v);
            let mut out = vec![1u8; (1 << 20) + 4096];
            let n = ((1 << 20) / thousands::cycle_bytes(width) * 3) as u64;
            let mut h = 10u64.pow(width as u32 - 4) / 3 * 3 + 3;
            let mut best = f64::MAX;
            let mut bytes = 0;
            for _ in 0..300 {
                let s = Instant::now();
                bytes = t.fill(h..h + n, &mut out);
                best = best.min(s.elapsed().as_secs_f64());
                h += n;
            }
            println!(
                "fill {width} {} {:.1} GiB/s",
                v.is_some(),
                bytes as f64 / best / (1u64 << 30) as f64
            );
        }
        for buf in [128usize << 10, 256 << 10, 512 << 10] {
            for vv in [None] {
                let t = { thousands::Thousands::new(width, vv) };
                let mut f = thousands::Thousands::new(width, None);
                let mut out = vec![1u8; buf + 400960];
                let n = (buf / thousands::cycle_bytes(width) / 5 * 15).max(15) as u64;
                let mut h = 10u64.pow(width as u32 - 4) / 3 * 3 + 3;
                let al = out.as_ptr().align_offset(64);
                let bytes = f.fill(h..h + n, &mut out[al..]);
                let mut times = vec![];
                for _ in 0..1000 {
                    let s = Instant::now();
                    t.update(h..h + n, h + 2 * n, &mut out[al..]);
                    times.push(s.elapsed().as_secs_f64());
                    h += 2 * n;
                }
                times.sort_by(f64::total_cmp);
                println!(
                    "update {width} {buf} {} best {:.1} median {:.1} GiB/s",
                    vv.is_some(),
                    bytes as f64 / times[0] / (1u64 << 30) as f64,
                    bytes as f64 / times[500] / (1u64 << 30) as f64
                );
            }
        }
    }
}
