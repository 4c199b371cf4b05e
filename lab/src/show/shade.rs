//! Colours for rates, on a terminal and on a page.

/// Cividis (Nuñez and others, 2018), thinned out: as light as it is fast, and the same to every kind of colour vision.
const CIVIDIS: [[u8; 3]; 8] = [
    [0, 34, 78],
    [35, 62, 108],
    [80, 90, 111],
    [107, 114, 121],
    [138, 138, 120],
    [171, 164, 110],
    [208, 194, 86],
    [254, 232, 56],
];
/// The nearest of a terminal's 256 colours.
const INDEXED: [u8; 8] = [17, 24, 60, 242, 245, 143, 179, 221];

/// A colour of the scale.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shade {
    /// Red, green, blue.
    pub rgb: (u8, u8, u8),
    /// One of 256 colours that is near it.
    pub indexed: u8,
    /// Whether text upon it should be dark.
    pub is_light: bool,
}

/// From 0, the slowest, to 1, the fastest.
pub fn cividis(share: f64) -> Shade {
    let at = share.clamp(0.0, 1.0) * (CIVIDIS.len() - 1) as f64;
    let i = (at as usize).min(CIVIDIS.len() - 2);
    let mix = |of: usize| {
        let [a, b] = [i, i + 1].map(|i| f64::from(CIVIDIS[i][of]));
        a + (b - a) * (at - i as f64)
    };
    let (r, g, b) = (mix(0), mix(1), mix(2));
    Shade {
        rgb: (r as u8, g as u8, b as u8),
        indexed: INDEXED[at.round() as usize],
        is_light: 0.299 * r + 0.587 * g + 0.114 * b > 128.0,
    }
}
