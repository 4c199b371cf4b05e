//! What was staged is what is delivered, whatever the socket has room for.

use std::io::Read;

use super::*;
use crate::sys::fault::inject;
use crate::testing::sequence::Sequence;

const WAYS: [fn() -> Result<Fat>; 2] = [Fat::new, keeping];

fn keeping() -> Result<Fat> {
    let mut fat = Fat::new()?;
    fat.set_keeping(true);
    Ok(fat)
}

/// A socket with little room takes a part of a message, or of the messages of one call.
#[test]
fn socket_with_little_room_stages_a_part_without_gaps() {
    let sequence = Sequence::new(1);
    for (room, make) in [1, 5000, 20_000, 33_000, 50_000, 100_000, 150_000]
        .into_iter()
        .flat_map(|room| WAYS.map(|make| (room, make)))
    {
        let mut fat = make().unwrap();
        set_socket_send_buffer_size(&fat.ends.tx, room).unwrap();
        let mut all = Vec::new();
        for len in [1, 4096, FRAGMENT, 100_000, 300_000] {
            let staged = fat.stage(sequence.at(all.len(), len)).unwrap();
            assert!(staged > 0 && staged <= len, "{staged} of {len} in {room}");
            let mut left = staged;
            while left > 0 {
                let (read_end, write_end) = sys::pipe().unwrap();
                let moved = fat
                    .deliver(&write_end, left, SpliceFlags::NONBLOCK)
                    .unwrap();
                drop(write_end);
                let before = all.len();
                std::fs::File::from(read_end).read_to_end(&mut all).unwrap();
                assert_eq!(all.len() - before, moved);
                left -= moved;
            }
            let (_read_end, write_end) = sys::pipe().unwrap();
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
    for make in WAYS {
        let mut fat = make().unwrap();
        let (read_end, write_end) = sys::pipe().unwrap();
        let deliver = |fat: &mut Fat, len| {
            let moved = fat.deliver(&write_end, len, SpliceFlags::NONBLOCK);
            moved.unwrap()
        };
        fat.stage(&[1; 50_000]).unwrap();
        fat.discard().unwrap();
        fat.stage(&[2; 50_000]).unwrap();
        let delivered = deliver(&mut fat, 10_000);
        fat.discard().unwrap();
        fat.stage(b"next").unwrap();
        deliver(&mut fat, 1 << 20);
        drop(write_end);
        let mut all = Vec::new();
        std::fs::File::from(read_end).read_to_end(&mut all).unwrap();
        assert_eq!(all, [&[2; 10_000][..delivered], b"next"].concat());
    }
}

/// What is kept goes round many times, with pieces that fill its slots badly, and while its calls are refused.
#[test]
fn what_is_kept_changes_nothing() {
    for refused in [None, Some(Call::Tee), Some(Call::Pipe)] {
        let (read_end, write_end) = sys::pipe().unwrap();
        let _refused = inject(move |call, len| match call {
            call if Some(call) == refused => Err(Errno::PERM),
            _ => Ok(len),
        });
        let reader = std::thread::spawn(move || {
            let mut all = Vec::new();
            std::fs::File::from(read_end).read_to_end(&mut all).unwrap();
            all
        });
        let sequence = Sequence::new(5);
        let mut fat = keeping().unwrap();
        let mut sent = 0;
        for len in [1000, 200_000, 40_000].into_iter().cycle().take(200) {
            let staged = fat.stage(sequence.at(sent, len)).unwrap();
            let mut left = staged;
            while left > 0 {
                left -= fat.deliver(&write_end, left, SpliceFlags::empty()).unwrap();
            }
            sent += staged;
        }
        drop(write_end);
        let all = reader.join().unwrap();
        assert_eq!(all.len(), sent);
        sequence.check(0, &all);
    }
}
