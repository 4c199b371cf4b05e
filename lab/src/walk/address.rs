//! The fields of an address.

use serde::Serialize;

/// Levels of the page table.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Levels {
    /// PGD, PUD, PMD, PTE: addresses of 48 bits.
    Four,
    /// PGD, P4D, PUD, PMD, PTE: addresses of 57 bits (`la57`).
    Five,
}

impl Levels {
    /// Bits of an address that have a meaning of their own; those above must equal the highest of them.
    pub fn bits(self) -> u32 {
        match self {
            Self::Four => 48,
            Self::Five => 57,
        }
    }

    /// How many there are.
    pub fn count(self) -> u32 {
        match self {
            Self::Four => 4,
            Self::Five => 5,
        }
    }
}

/// Size of the page that the walk ends at.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Leaf {
    /// 4 KiB, mapped by a PTE.
    Small,
    /// 2 MiB, mapped by a PMD.
    Huge,
    /// 1 GiB, mapped by a PUD.
    Gigantic,
}

impl Leaf {
    /// Bits of the offset in the page.
    pub fn bits(self) -> u32 {
        match self {
            Self::Small => 12,
            Self::Huge => 21,
            Self::Gigantic => 30,
        }
    }

    /// Name of the size.
    pub fn size(self) -> &'static str {
        match self {
            Self::Small => "4 KiB",
            Self::Huge => "2 MiB",
            Self::Gigantic => "1 GiB",
        }
    }
}

/// Where an address lies.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum Place {
    /// In the lower half, which belongs to the process.
    User,
    /// In the upper half, which belongs to the kernel.
    Kernel,
    /// Nowhere: the processor refuses it before any walk.
    NotCanonical,
}

/// Some bits of an address.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Field {
    /// `above` (the bits that carry no information), `PGD`, `P4D`, `PUD`, `PMD`, `PTE` or `offset`.
    pub name: &'static str,
    /// Highest bit.
    pub high: u32,
    /// Lowest bit.
    pub low: u32,
    /// The bits as a number: the index of the entry in its table, or the byte in the page.
    pub value: u64,
}

impl Field {
    /// The bits as digits.
    pub fn binary(&self) -> String {
        let width = (self.high - self.low + 1) as usize;
        format!("{:0width$b}", self.value)
    }
}

/// An address, taken apart.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Decoded {
    /// The address.
    pub address: u64,
    /// Levels of the table.
    pub levels: Levels,
    /// Page that the walk ends at.
    pub leaf: Leaf,
    /// From the highest bit to the lowest; without gaps.
    pub fields: Vec<Field>,
}

/// Every table, and the bits of its index: 512 entries of 8 bytes are a page.
const TABLES: [(&str, u32); 5] = [
    ("PGD", 48),
    ("P4D", 39),
    ("PUD", 30),
    ("PMD", 21),
    ("PTE", 12),
];
const INDEX_BITS: u32 = 9;

impl Decoded {
    /// Takes an address apart.
    pub fn of(address: u64, levels: Levels, leaf: Leaf) -> Self {
        let field = |name, high: u32, low: u32| Field {
            name,
            high,
            low,
            value: (address >> low) & ((1 << (high - low + 1)) - 1),
        };
        let mut fields = vec![field("above", 63, levels.bits())];
        for (name, low) in TABLES {
            // With four levels there is no P4D, and the PGD takes its place.
            let name = match (name, levels) {
                ("PGD", Levels::Four) => continue,
                ("P4D", Levels::Four) => "PGD",
                _ => name,
            };
            if low >= leaf.bits() {
                fields.push(field(name, low + INDEX_BITS - 1, low));
            }
        }
        fields.push(field("offset", leaf.bits() - 1, 0));
        Self {
            address,
            levels,
            leaf,
            fields,
        }
    }

    /// Where the address lies: all bits above the highest one in use must equal it.
    pub fn place(&self) -> Place {
        // Sign extension: an arithmetic shift there and back.
        match (self.address as i64) >> (self.levels.bits() - 1) {
            0 => Place::User,
            -1 => Place::Kernel,
            _ => Place::NotCanonical,
        }
    }

    /// The indexes, from the top table to the last one.
    pub fn indexes(&self) -> impl Iterator<Item = &Field> {
        let not_index = |name| name == "above" || name == "offset";
        self.fields.iter().filter(move |f| !not_index(f.name))
    }

    /// The byte in the page.
    pub fn offset(&self) -> u64 {
        self.address & ((1 << self.leaf.bits()) - 1)
    }
}

/// Whether there is such an address, with four levels and with five.
pub fn verdict(address: u64) -> String {
    let place = |levels| Decoded::of(address, levels, Leaf::Small).place();
    match (place(Levels::Four), place(Levels::Five)) {
        (Place::User, _) => {
            "canonical: an address of the lower half, which is the process's.".to_owned()
        }
        (Place::Kernel, _) => {
            "canonical: an address of the upper half, which is the kernel's.".to_owned()
        }
        (_, five) => {
            let bit = (address >> 47) & 1;
            let rest = match five {
                Place::NotCanonical => {
                    "With 5 levels it is not either: bits 57 to 63 would have to equal bit 56"
                        .to_owned()
                }
                place => format!(
                    "With 5 levels (57 bits) it is canonical, in the {} half{}",
                    if place == Place::User {
                        "lower"
                    } else {
                        "upper"
                    },
                    if place == Place::User {
                        ", but Linux gives addresses beyond 47 bits only to those who ask for them"
                    } else {
                        ""
                    },
                ),
            };
            format!(
                "not canonical with 4 levels: bit 47 is {bit}, and bits 48 to 63 would have to equal it; the processor \
                 refuses such an address before any walk. {rest}."
            )
        }
    }
}

/// An address as people write it: hexadecimal with 0x, `_` allowed between digits, or decimal.
///
/// # Errors
/// What is wrong with the text.
pub fn parse_address(text: &str) -> Result<u64, String> {
    let wrong =
        || format!("`{text}` is no address of 64 bits; write for example 0x00007f705af953c0");
    let digits = text.replace('_', "");
    let parsed = match digits.strip_prefix("0x").or(digits.strip_prefix("0X")) {
        Some(hex) if hex.bytes().all(|b| b.is_ascii_hexdigit()) => u64::from_str_radix(hex, 16),
        None if digits.bytes().all(|b| b.is_ascii_digit()) => digits.parse(),
        _ => return Err(wrong()),
    };
    parsed.map_err(|_| wrong())
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const ARTICLE: u64 = 0x0000_f270_5af9_53c0;

    #[test]
    fn levels_and_pages_change_the_fields() {
        let names = |levels, leaf| {
            let decoded = Decoded::of(ARTICLE, levels, leaf);
            let names: Vec<_> = decoded.fields.iter().map(|f| f.name).collect();
            names.join(" ")
        };
        assert_eq!(
            names(Levels::Four, Leaf::Small),
            "above PGD PUD PMD PTE offset"
        );
        assert_eq!(
            names(Levels::Five, Leaf::Small),
            "above PGD P4D PUD PMD PTE offset"
        );
        assert_eq!(names(Levels::Four, Leaf::Huge), "above PGD PUD PMD offset");
        assert_eq!(
            names(Levels::Five, Leaf::Gigantic),
            "above PGD P4D PUD offset"
        );
        let huge = Decoded::of(ARTICLE, Levels::Four, Leaf::Huge);
        assert_eq!(huge.offset(), 405 * 4096 + 960);
    }

    #[test]
    fn the_articles_address_is_canonical_with_five_levels_only() {
        let text = verdict(ARTICLE);
        assert!(
            text.starts_with("not canonical with 4 levels: bit 47 is 1"),
            "{text}"
        );
        assert!(
            text.contains("With 5 levels (57 bits) it is canonical, in the lower half"),
            "{text}"
        );
        assert!(verdict(0x7fff_ffff_ffff).starts_with("canonical: an address of the lower"));
        assert!(verdict(0xffff_8000_0000_0000).starts_with("canonical: an address of the upper"));
        assert!(verdict(0x0100_0000_0000_0000).contains("With 5 levels it is not either"));
        assert!(
            verdict(0xff7f_ffff_ffff_ffff).contains("upper")
                || verdict(0xff7f_ffff_ffff_ffff).contains("not either")
        );
    }

    #[test]
    fn addresses_are_read_as_people_write_them() {
        assert_eq!(parse_address("0x0000f2705af953c0"), Ok(ARTICLE));
        assert_eq!(parse_address("0x0000_f270_5af9_53c0"), Ok(ARTICLE));
        assert_eq!(parse_address("4096"), Ok(4096));
        for wrong in [
            "",
            "0x",
            "f2705af953c0",
            "0x1ffffffffffffffff",
            "-1",
            "+1",
            "0x+1",
            "0xg",
        ] {
            assert!(parse_address(wrong).is_err(), "{wrong}");
        }
    }

    proptest! {
        #[test]
        fn fields_put_together_are_the_address(
            address: u64,
            levels in prop::sample::select(&[Levels::Four, Levels::Five]),
            leaf in prop::sample::select(&[Leaf::Small, Leaf::Huge, Leaf::Gigantic]),
        ) {
            let decoded = Decoded::of(address, levels, leaf);
            let back = decoded.fields.iter().fold(0, |sum, f| sum | (f.value << f.low));
            prop_assert_eq!(back, address);
            prop_assert_eq!(decoded.fields[0].high, 63);
            for two in decoded.fields.windows(2) {
                prop_assert_eq!(two[0].low, two[1].high + 1);
            }
            let digits: String = decoded.fields.iter().map(Field::binary).collect();
            prop_assert_eq!(digits, format!("{address:064b}"));
        }

        #[test]
        fn canonical_is_what_sign_extension_leaves_alone(address: u64) {
            for levels in [Levels::Four, Levels::Five] {
                let shift = 64 - levels.bits();
                let extended = (((address << shift) as i64) >> shift) as u64;
                let place = Decoded::of(address, levels, Leaf::Small).place();
                prop_assert_eq!(place != Place::NotCanonical, extended == address);
                let of_extended = Decoded::of(extended, levels, Leaf::Small).place();
                prop_assert_ne!(of_extended, Place::NotCanonical);
            }
        }

        #[test]
        fn any_text_is_parsed_or_refused_without_panic(text in "\\PC{0,20}") {
            let _ = parse_address(&text);
        }
    }
}
