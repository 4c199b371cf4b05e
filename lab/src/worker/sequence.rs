//! The known sequence of `--verify`: each 8-byte word is its own offset in the stream, little-endian.

/// Writes the part of the sequence that begins at byte `offset`.
pub fn fill(buffer: &mut [u8], offset: u64) {
    each_piece(offset, buffer.len(), |at, word, skip, take| {
        buffer[at..at + take].copy_from_slice(&word[skip..skip + take]);
        true
    });
}

/// Offset in the stream of the first byte that is not the sequence's, if any.
pub fn first_difference(bytes: &[u8], offset: u64) -> Option<u64> {
    let mut bad = None;
    each_piece(offset, bytes.len(), |at, word, skip, take| {
        let (got, want) = (&bytes[at..at + take], &word[skip..skip + take]);
        if got == want {
            return true;
        }
        let within = got.iter().zip(want).position(|(g, w)| g != w);
        bad = within.map(|i| offset + (at + i) as u64);
        false
    });
    bad
}

/// Calls `piece(position, word, bytes of it to skip, bytes of it to take)` for each word the range touches, until it
/// returns false.
fn each_piece(
    offset: u64,
    len: usize,
    mut piece: impl FnMut(usize, [u8; 8], usize, usize) -> bool,
) {
    let mut at = 0;
    while at < len {
        let here = offset + at as u64;
        let skip = (here % 8) as usize;
        let take = (8 - skip).min(len - at);
        if !piece(at, (here - skip as u64).to_le_bytes(), skip, take) {
            return;
        }
        at += take;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn each_word_is_its_own_offset() {
        let mut buffer = [0; 24];
        fill(&mut buffer, 0);
        assert_eq!(buffer[..8], 0u64.to_le_bytes());
        assert_eq!(buffer[8..16], 8u64.to_le_bytes());
        assert_eq!(buffer[16..], 16u64.to_le_bytes());
    }

    proptest! {
        #[test]
        fn pieces_make_the_same_sequence(start in 0u64..1 << 40, cuts in prop::collection::vec(0usize..40, 1..20)) {
            let total: usize = cuts.iter().sum();
            let mut whole = vec![0; total];
            fill(&mut whole, start);
            let mut at = 0;
            for cut in cuts {
                let mut piece = vec![0; cut];
                fill(&mut piece, start + at as u64);
                prop_assert_eq!(&piece[..], &whole[at..at + cut]);
                prop_assert_eq!(first_difference(&piece, start + at as u64), None);
                at += cut;
            }
        }

        #[test]
        fn a_changed_byte_is_found_where_it_is(start: u32, len in 1usize..100, at: prop::sample::Index, by in 1u8..) {
            let mut bytes = vec![0; len];
            fill(&mut bytes, start.into());
            let at = at.index(len);
            bytes[at] = bytes[at].wrapping_add(by);
            prop_assert_eq!(first_difference(&bytes, start.into()), Some(u64::from(start) + at as u64));
        }
    }
}
