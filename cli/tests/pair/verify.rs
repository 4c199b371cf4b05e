//! Every byte arrives, in order, whole; and where one does not, the reader says which.

use proptest::prelude::*;

use crate::support::{
    can_lock_memory, collect, feed, fullbore, has_transparent_huge_pages, kernel, pair, sequence,
    skip,
};
use crate::{WAITS, WAYS_IN};

const READ_BUFFERS: [(&str, usize); 5] = [
    ("1", 1),
    ("7", 7),
    ("4096", 4096),
    ("5001", 5001),
    ("256K", 256 << 10),
];

/// Enough to go round every buffer several times, little enough for one byte per call and for two
/// sides that spin on one CPU. Never a multiple of a page, nor of a word.
fn enough(smallest_buffer: usize) -> usize {
    match smallest_buffer {
        1 => 10_007,
        2..=1000 => 60_013,
        1001..=8192 => 150_001,
        _ => 1_000_003,
    }
}

/// Runs a verifying pair and asserts that exactly `bytes` arrived.
#[track_caller]
fn verified(writer: &str, reader: &str, bytes: usize) {
    let pair = pair(
        &format!("write {writer} --bytes {bytes} --verify"),
        &format!("read {reader} --verify --json"),
    );
    pair.quiet_success();
    let report = pair.reader.json();
    assert_eq!(report["bytes"], bytes, "{writer} | {}", pair.reader);
}

/// Runs a write method with each of its buffers against every wait and every buffer of the reader.
fn every_byte_arrives(way_in: &str, write_buffers: &[(&str, usize)]) {
    for wait in WAITS {
        for (out, out_bytes) in write_buffers {
            for (into, into_bytes) in READ_BUFFERS {
                verified(
                    &format!("{way_in} --wait {wait} --buf-size {out}"),
                    &format!("--wait {wait} --buf-size {into}"),
                    enough(into_bytes.min(*out_bytes)),
                );
            }
        }
    }
}

#[test]
fn every_byte_written_arrives_in_order() {
    every_byte_arrives(
        "--write-with write",
        &[
            ("1", 1),
            ("1000", 1000),
            ("5001", 5001),
            ("256K", 256 << 10),
        ],
    );
}

/// The capacity is half the buffer: 8 KiB makes a pipe of one page.
const VMSPLICE_BUFFERS: [(&str, usize); 3] =
    [("8K", 8 << 10), ("64K", 64 << 10), ("256K", 256 << 10)];

#[test]
fn every_byte_vmspliced_from_small_pages_arrives_in_order() {
    every_byte_arrives("--write-with vmsplice", &VMSPLICE_BUFFERS);
}

#[test]
fn every_byte_vmspliced_from_huge_pages_arrives_in_order() {
    every_byte_arrives("--write-with vmsplice --pages huge", &VMSPLICE_BUFFERS);
}

#[test]
fn every_byte_lent_from_fresh_pages_arrives_in_order() {
    every_byte_arrives("--write-with fresh --pipe-size 64K", &[("5001", 5001)]);
    every_byte_arrives(
        "--write-with fresh --pipe-size 4096",
        &[("256K", 256 << 10)],
    );
}

#[test]
fn every_byte_in_fat_slots_arrives_in_order() {
    for pipe_size in ["4096", "1M"] {
        let way = format!("--write-with fat --pipe-size {pipe_size}");
        every_byte_arrives(&way, &[("5001", 5001), ("256K", 256 << 10)]);
    }
}

#[test]
fn pattern_by_tee_arrives_unbroken() {
    let way = "--write-with tee";
    for wait in WAITS {
        for pipe_size in ["4096", "64K"] {
            for (buffer, bytes) in READ_BUFFERS {
                verified(
                    &format!("{way} --wait {wait} --pipe-size {pipe_size}"),
                    &format!("{way} --wait {wait} --buf-size {buffer}"),
                    enough(bytes),
                );
            }
        }
    }
}

#[test]
fn sides_that_wait_differently_lose_nothing() {
    for write_wait in WAITS {
        for read_wait in WAITS {
            for way_in in ["--pipe-size 4096 --buf-size 5001", "--with vmsplice"] {
                verified(
                    &format!("{way_in} --wait {write_wait}"),
                    &format!("--wait {read_wait} --buf-size 3000"),
                    150_001,
                );
            }
        }
    }
}

#[test]
fn pipe_of_one_page_loses_nothing() {
    for wait in WAITS {
        for (buffer, bytes) in READ_BUFFERS {
            verified(
                &format!("--pipe-size 4096 --wait {wait}"),
                &format!("--wait {wait} --buf-size {buffer}"),
                enough(bytes.min(4096)),
            );
        }
    }
}

#[test]
fn options_change_no_byte() {
    let mut options = vec![
        "--same-buffer",
        "--gift",
        "--dont-touch-pages",
        "--gift --same-buffer --dont-touch-pages",
    ];
    if can_lock_memory() {
        options.push("--lock-memory");
        options.push("--lock-memory --same-buffer");
    } else {
        skip("--lock-memory: too little memory may be locked (ulimit -l)");
    }
    for way_in in WAYS_IN {
        for option in &options {
            verified(&format!("{way_in} {option}"), option, 1_000_003);
        }
    }
}

#[test]
fn checked_huge_pages_carry_every_byte() {
    if !has_transparent_huge_pages() {
        return skip("no transparent huge pages on this machine");
    }
    for way_in in WAYS_IN {
        if way_in.contains("huge") {
            verified(
                &format!("{way_in} --check-huge-page"),
                "--pages huge --check-huge-page",
                1_000_003,
            );
        }
    }
}

#[test]
fn hugetlb_pages_carry_every_byte() {
    let free = kernel("/proc/meminfo")
        .lines()
        .find_map(|line| line.strip_prefix("HugePages_Free:")?.trim().parse().ok())
        .unwrap_or(0);
    if free < 4 {
        return skip(format_args!("{free} huge pages reserved, 4 needed"));
    }
    for way_in in ["--write-with write", "--write-with vmsplice"] {
        verified(&format!("{way_in} --pages hugetlb"), "", 1_000_003);
    }
}

#[test]
fn pinned_sides_lose_nothing() {
    let allowed = rustix::thread::sched_getaffinity(None).expect("this thread's CPUs");
    let cpu = (0..rustix::thread::CpuSet::MAX_CPU)
        .find(|&cpu| allowed.is_set(cpu))
        .expect("a CPU to run on");
    for wait in WAITS {
        // Both on one CPU: whoever spins keeps the other from running until its time is up.
        let side = format!("--cpu {cpu} --wait {wait}");
        verified(&side, &side, 1_000_003);
    }
}

#[test]
fn writer_sends_the_documented_sequence() {
    for way_in in WAYS_IN {
        for bytes in [1, 8, 4095, 4096, 300_007] {
            let line = format!("write {way_in} --bytes {bytes} --verify");
            let (writer, data) = collect(fullbore(&line));
            writer.quiet_success();
            assert!(data == sequence(bytes), "{writer}");
        }
    }
}

#[test]
fn writer_sends_x_unless_told_otherwise() {
    for way_in in WAYS_IN {
        let (writer, data) = collect(fullbore(&format!("write {way_in} --bytes 300007")));
        writer.quiet_success();
        assert!(data == vec![b'X'; 300_007], "{writer}");
    }
}

/// Feeds `data` to a verifying reader and asserts that it names the first byte that differs.
#[track_caller]
fn caught(data: Vec<u8>, options: &str) {
    let first_bad = sequence(data.len())
        .iter()
        .zip(&data)
        .position(|(good, bad)| good != bad)
        .expect("a corruption");
    let run = feed(fullbore(&format!("read --verify {options}")), data);
    run.complains(&[1]);
    let named = run
        .err
        .split(|c: char| !c.is_ascii_digit())
        .any(|number| number.parse() == Ok(first_bad));
    assert!(named, "offset {first_bad} is not named: {run}");
}

#[test]
fn lost_repeated_and_misplaced_data_are_caught() {
    type Damage = fn(&mut Vec<u8>);
    let damages: [(&str, Damage); 7] = [
        ("a byte lost", |data| drop(data.drain(5001..5002))),
        ("a word lost", |data| drop(data.drain(8192..8200))),
        ("a page lost", |data| drop(data.drain(4096..8192))),
        ("the start lost", |data| drop(data.drain(..8))),
        ("a page sent twice", |data| {
            data.copy_within(4096..8192, 8192);
        }),
        ("pages in the wrong order", |data| {
            let (first, second) = data.split_at_mut(65536);
            first[4096..8192].swap_with_slice(&mut second[..4096]);
        }),
        ("a page overwritten", |data| data[12288..16384].fill(b'X')),
    ];
    for (what, damage) in damages {
        let mut data = sequence(200_003);
        damage(&mut data);
        for options in [
            "",
            "--buf-size 7",
            "--buf-size 5001 --wait spin",
            "--wait poll",
        ] {
            eprintln!("{what}, read {options}");
            caught(data.clone(), options);
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: 64,
        failure_persistence: None,
        ..ProptestConfig::default()
    })]

    #[test]
    fn one_flipped_bit_is_caught_at_its_offset(
        mut data in (1_usize..20_000).prop_map(sequence),
        place: prop::sample::Index,
        bit in 0_u32..8,
        buffer in 1_usize..6000,
        wait in prop::sample::select(&WAITS[..]),
    ) {
        let options = format!("--buf-size {buffer} --wait {wait}");
        let run = feed(fullbore(&format!("read --verify --json {options}")), data.clone());
        run.quiet_success();
        prop_assert_eq!(&run.json()["bytes"], data.len());

        let place = place.index(data.len());
        data[place] ^= 1 << bit;
        caught(data, &options);
    }
}
