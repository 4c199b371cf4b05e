//! The row of 2005, for scale.

use serde::{Deserialize, Serialize};

use crate::stats;

/// lmbench's nine columns of January 2005, in MB/s (10⁶ bytes), before and after a pipe became a ring of pages.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Row2005 {
    /// Machine and kernel.
    pub machine: String,
    /// Where the figures were published.
    pub source: String,
    /// Ids of the columns.
    pub columns: Vec<String>,
    /// A pipe of one page: medians of four runs.
    pub before: Vec<f64>,
    /// A pipe of 16 pages: medians of four runs.
    pub after: Vec<f64>,
    /// The four runs before, one figure per column.
    pub runs_before: Vec<Vec<f64>>,
    /// The four runs after.
    pub runs_after: Vec<Vec<f64>>,
}

/// lmbench's columns, in its order.
pub const COLUMNS: [&str; 9] = [
    "pipe",
    "af-unix",
    "tcp",
    "file-reread",
    "mmap-reread",
    "bcopy-libc",
    "bcopy-hand",
    "mem-read",
    "mem-write",
];

const BEFORE: [[f64; 9]; 4] = [
    [
        753., 1305., 550., 1110.3, 2051.3, 932.3, 926.4, 2043., 1291.,
    ],
    [
        738., 1596., 558., 1099.4, 2038.8, 936.6, 925.0, 2033., 1288.,
    ],
    [
        752., 1535., 557., 1107.2, 2043.5, 937.9, 932.1, 2037., 1292.,
    ],
    [
        750., 1524., 556., 1107.5, 2046.0, 937.2, 930.4, 2037., 1289.,
    ],
];

const AFTER: [[f64; 9]; 4] = [
    [
        976., 1594., 561., 1110.6, 2045.8, 934.9, 923.6, 2039., 1288.,
    ],
    [
        1195., 1595., 549., 1102.0, 2049.0, 909.5, 930.5, 2044., 1292.,
    ],
    [
        1669., 1418., 507., 1122.9, 2051.3, 943.4, 916.4, 2035., 1280.,
    ],
    [
        1472., 1612., 557., 1092.4, 2032.9, 932.1, 935.1, 2030., 1281.,
    ],
];

/// The row as it was published.
pub fn row() -> Row2005 {
    let medians = |runs: &[[f64; 9]; 4]| {
        (0..COLUMNS.len())
            .filter_map(|i| stats::median(&runs.map(|run| run[i])))
            .collect()
    };
    let runs = |runs: &[[f64; 9]; 4]| runs.iter().map(|r| r.to_vec()).collect();
    Row2005 {
        machine: "PowerPC 970, Linux 2.6.10".into(),
        source: "Linus Torvalds, \"Re: Make pipe data structure be a circular list of pages, rather than\", linux-kernel, \
                 6 January 2005, https://lkml.indiana.edu/hypermail/linux/kernel/0501.0/1709.html"
            .into(),
        columns: COLUMNS.map(String::from).to_vec(),
        before: medians(&BEFORE),
        after: medians(&AFTER),
        runs_before: runs(&BEFORE),
        runs_after: runs(&AFTER),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_printed_row_is_the_median_of_the_published_runs() {
        let row = row();
        assert_eq!(row.before[0], 751.0);
        assert_eq!(row.after[0], 1333.5);
        assert_eq!((row.before.len(), row.after.len()), (9, 9));
        // The mail's own summary of the pipe: 30 to 90 % more.
        assert!((1.3..1.9).contains(&(row.after[0] / row.before[0])));
    }
}
