//! Whether the kernel shows its symbols to this process.

/// Whether /proc/kallsyms shows no addresses to this process (`kptr_restrict`), or is not there.
pub fn kernel_symbols_hidden() -> bool {
    use std::io::BufRead;
    let Ok(file) = std::fs::File::open("/proc/kallsyms") else {
        return true;
    };
    // The first symbols may truly lie at zero (per-CPU ones).
    let lines = std::io::BufReader::new(file).lines();
    let mut lines = lines.map_while(std::io::Result::ok).take(5000);
    !lines.any(|line| shows_address(&line))
}

fn shows_address(line: &str) -> bool {
    let address = line.split(' ').next().unwrap_or_default();
    u64::from_str_radix(address, 16).is_ok_and(|a| a >= 1 << 32)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hidden_addresses_are_told_from_shown_ones() {
        assert!(shows_address("ffffffff81000000 T _text"));
        assert!(!shows_address("0000000000000000 T _text"));
        assert!(!shows_address("0000000000021000 A gdt_page"));
    }
}
