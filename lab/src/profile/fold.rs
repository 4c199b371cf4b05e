//! From call chains to shares: of causes, of functions, of what lies below one function.

use std::collections::BTreeMap;

use super::cause::{Cause, KERNEL, classify};
use super::profiled::{CauseShare, SymbolShare};

/// So many functions are named for each cause.
const TOP: usize = 5;

/// A folded stack, outermost function first, as `a;b;c`, and how often it was seen.
pub type Folded = (String, u64);

/// Shares out `on_cpu_s` seconds of a side that moved `pages` pages among causes, largest first. `hidden_s` of them were
/// spent where nothing could be looked at.
pub fn causes(folded: &[Folded], on_cpu_s: f64, hidden_s: f64, pages: f64) -> Vec<CauseShare> {
    let mut samples: BTreeMap<Cause, u64> = BTreeMap::new();
    let mut leaves: BTreeMap<(Cause, &str), u64> = BTreeMap::new();
    for (stack, count) in folded {
        let cause = classify(stack.split(';'));
        *samples.entry(cause).or_default() += count;
        *leaves.entry((cause, leaf(stack))).or_default() += count;
    }
    let all: u64 = samples.values().sum();
    let hidden = if on_cpu_s > 0.0 {
        (hidden_s / on_cpu_s).clamp(0.0, 1.0)
    } else {
        0.0
    };
    let share = |count: u64| count as f64 / all.max(1) as f64 * (1.0 - hidden);
    let ns_per_page = |share: f64| share * on_cpu_s * 1e9 / pages.max(1.0);
    let mut shares: Vec<_> = samples
        .into_iter()
        .map(|(cause, samples)| {
            let mut top: Vec<_> = leaves.iter().filter(|((c, _), _)| *c == cause).collect();
            top.sort_by_key(|(_, count)| std::cmp::Reverse(**count));
            CauseShare {
                cause,
                samples,
                share: share(samples),
                ns_per_page: ns_per_page(share(samples)),
                ns_per_page_ci95: None,
                top: top
                    .into_iter()
                    .take(TOP)
                    .map(|((_, symbol), count)| SymbolShare {
                        symbol: (*symbol).to_owned(),
                        share: share(*count),
                    })
                    .collect(),
            }
        })
        .collect();
    if hidden > 0.0 {
        shares.push(CauseShare {
            cause: Cause::Hidden,
            samples: 0,
            share: hidden,
            ns_per_page: ns_per_page(hidden),
            ns_per_page_ci95: None,
            top: Vec::new(),
        });
    }
    shares.sort_by(|a, b| b.share.total_cmp(&a.share));
    shares
}

/// The innermost function of a stack, without the kernel's mark.
fn leaf(stack: &str) -> &str {
    let leaf = stack.rsplit(';').next().unwrap_or(stack);
    leaf.strip_suffix(KERNEL).unwrap_or(leaf)
}

/// A function below another one, with its share.
#[derive(Clone, Debug, PartialEq)]
pub struct Callee {
    /// Its name.
    pub symbol: String,
    /// Share of the samples in the function at the top.
    pub share: f64,
    /// What it calls itself, largest first.
    pub callees: Vec<Callee>,
}

/// The tree below `symbol`, wherever it is called from, and its share of all samples. `None` when no sample is in it.
pub fn below(folded: &[Folded], symbol: &str) -> Option<(f64, Callee)> {
    let mut root = Node::default();
    let mut all = 0;
    for (stack, count) in folded {
        all += count;
        let mut frames = stack
            .split(';')
            .map(|f| f.strip_suffix(KERNEL).unwrap_or(f))
            .skip_while(|f| *f != symbol);
        if frames.next().is_none() {
            continue;
        }
        root.count += count;
        let mut node = &mut root;
        for frame in frames {
            node = node.callees.entry(frame).or_default();
            node.count += count;
        }
    }
    if root.count == 0 {
        return None;
    }
    let share = root.count as f64 / all as f64;
    Some((share, root.tree(symbol, root.count)))
}

#[derive(Debug, Default)]
struct Node<'a> {
    count: u64,
    callees: BTreeMap<&'a str, Node<'a>>,
}

impl Node<'_> {
    fn tree(&self, symbol: &str, of: u64) -> Callee {
        let mut callees: Vec<_> = self
            .callees
            .iter()
            .map(|(symbol, node)| node.tree(symbol, of))
            .collect();
        callees.sort_by(|a, b| b.share.total_cmp(&a.share));
        Callee {
            symbol: symbol.to_owned(),
            share: self.count as f64 / of as f64,
            callees,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn folded(lines: &[(&str, u64)]) -> Vec<Folded> {
        lines.iter().map(|(s, n)| ((*s).to_owned(), *n)).collect()
    }

    #[test]
    fn causes_share_out_the_cpu_time_completely() {
        let folded = folded(&[
            ("main;anon_pipe_write_[k];_copy_from_iter_[k]", 60),
            ("main;anon_pipe_write_[k];alloc_pages_noprof_[k];x_[k]", 30),
            ("main;run", 10),
        ]);
        let causes = causes(&folded, 2.0, 0.5, 1e9);
        let shares: f64 = causes.iter().map(|c| c.share).sum();
        let ns: f64 = causes.iter().map(|c| c.ns_per_page).sum();
        assert!((shares - 1.0).abs() < 1e-9, "{causes:?}");
        assert!((ns - 2.0).abs() < 1e-9, "{causes:?}");
        assert_eq!(causes[0].cause, Cause::Copy);
        assert!((causes[0].share - 0.45).abs() < 1e-9);
        assert_eq!(causes[0].top[0].symbol, "_copy_from_iter");
        assert_eq!(causes[1].cause, Cause::Hidden);
        assert_eq!(causes[2].top[0].symbol, "x");
    }

    #[test]
    fn nothing_sampled_has_no_causes() {
        assert_eq!(causes(&[], 0.0, 0.0, 0.0), []);
    }

    #[test]
    fn tree_below_a_function_has_its_callees_with_shares() {
        let folded = folded(&[
            ("main;f_[k];g_[k];h_[k]", 3),
            ("other;f_[k];g_[k]", 1),
            ("main;f_[k]", 4),
            ("main", 8),
        ]);
        let (share, tree) = below(&folded, "f").unwrap();
        assert_eq!(share, 0.5);
        assert_eq!(tree.callees.len(), 1);
        assert_eq!(tree.callees[0].symbol, "g");
        assert_eq!(tree.callees[0].share, 0.5);
        assert_eq!(tree.callees[0].callees[0].share, 0.375);
        assert_eq!(below(&folded, "nowhere"), None);
    }
}
