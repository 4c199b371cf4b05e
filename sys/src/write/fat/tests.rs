//! What was staged is what is delivered, whatever the socket has room for.

use std::io::Read;

use super::*;
use crate::testing::sequence::Sequence;

/// A socket with little room takes a part of a message, or of the messages of one call.
#[test]
fn socket_with_little_room_stages_a_part_without_gaps() {
    let sequence = Sequence::new(1);
    for room in [1, 5000, 20_000, 33_000, 50_000, 100_000, 150_000] {
        let mut fat = Fat::new().unwrap();
        set_socket_send_buffer_size(&fat.ends.tx, room).unwrap();
        let mut all = Vec::new();
        for len in [1, 4096, FRAGMENT, 100_000, 300_000] {
            let staged = fat.stage(sequence.at(all.len(), len)).unwrap();
            assert!(staged > 0 && staged <= len, "{staged} of {len} in {room}");
            let mut left = staged;
            while left > 0 {
                let (read_end, write_end) = calls::pipe().unwrap();
                let moved = fat
                    .deliver(&write_end, left, SpliceFlags::NONBLOCK)
                    .unwrap();
                drop(write_end);
                let before = all.len();
                std::fs::File::from(read_end).read_to_end(&mut all).unwrap();
                assert_eq!(all.len() - before, moved);
                left -= moved;
            }
            let (_read_end, write_end) = calls::pipe().unwrap();
            let rest = fat.deliver(&write_end, 1, SpliceFlags::NONBLOCK);
            assert_eq!(
                rest.unwrap_err().kind(),
                io::ErrorKind::WouldBlock,
                "no more"
            );
        }
        sequence.check(0, &all);
    }
}

#[test]
fn what_was_discarded_is_never_delivered() {
    let mut fat = Fat::new().unwrap();
    let (read_end, write_end) = calls::pipe().unwrap();
    fat.stage(&[1; 50_000]).unwrap();
    fat.discard().unwrap();
    fat.stage(b"next").unwrap();
    fat.deliver(&write_end, 1 << 20, SpliceFlags::NONBLOCK)
        .unwrap();
    drop(write_end);
    let mut all = Vec::new();
    std::fs::File::from(read_end).read_to_end(&mut all).unwrap();
    assert_eq!(all, b"next");
}
