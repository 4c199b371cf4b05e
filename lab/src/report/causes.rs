//! Where the time went: ns per page, stacked by cause, for each rung and side.

use maud::{Markup, html};

use super::chart::{Chart, Drawing, Flow, Layout, STRONG, TEXT, px};
use super::ladder_chart::machine_line;
use super::text::{drawable, safe};
use crate::profile::cause::Cause;
use crate::profile::explain;
use crate::profile::profiled::{Profile, RungProfile, SideProfile};
use crate::rounds::by_state::ByState;
use crate::show::number::number;

/// More rungs than this are not drawn.
const MOST: usize = 60;

/// What a part of a side's time went into.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Part {
    /// On its CPU.
    Cpu(Cause),
    /// Waiting for its CPU.
    Runnable,
    /// Blocked in a call.
    Asleep,
}

impl Part {
    fn all() -> impl Iterator<Item = Self> {
        let causes = Cause::ALL.into_iter().map(Self::Cpu);
        causes.chain([Self::Runnable, Self::Asleep])
    }

    /// A short name.
    pub fn name(self) -> &'static str {
        match self {
            Self::Cpu(Cause::Copy) => "copy",
            Self::Cpu(Cause::Allocation) => "allocation",
            Self::Cpu(Cause::Accounting) => "accounting",
            Self::Cpu(Cause::PageLookup) => "page lookup",
            Self::Cpu(Cause::Ring) => "ring",
            Self::Cpu(Cause::Lock) => "lock",
            Self::Cpu(Cause::Wake) => "sleep, wake",
            Self::Cpu(Cause::Entry) => "entry",
            Self::Cpu(Cause::User) => "own code",
            Self::Cpu(Cause::Hidden) => "hidden",
            Self::Cpu(Cause::Other) => "other",
            Self::Runnable => "wait for CPU",
            Self::Asleep => "asleep",
        }
    }

    /// The name in full, as the profile has it.
    pub fn title(self) -> &'static str {
        match self {
            Self::Cpu(cause) => cause.title(),
            Self::Runnable => "waiting for its CPU",
            Self::Asleep => "asleep",
        }
    }

    /// Fill, and the class of text upon it. Colours that people with any kind of colour vision distinguish (Okabe and Ito),
    /// in the order of the stack so that neighbours differ in lightness, too.
    fn look(self) -> (&'static str, &'static str) {
        match self {
            Self::Cpu(Cause::Copy) => ("#0072b2", "on-dark"),
            Self::Cpu(Cause::Allocation) => ("#e69f00", "on-light"),
            Self::Cpu(Cause::Accounting) => ("#f0e442", "on-light"),
            Self::Cpu(Cause::PageLookup) => ("#00785a", "on-dark"),
            Self::Cpu(Cause::Ring) => ("#56b4e9", "on-light"),
            Self::Cpu(Cause::Lock) => ("#b84a00", "on-dark"),
            Self::Cpu(Cause::Wake) => ("#dc9cc0", "on-light"),
            Self::Cpu(Cause::Entry) => ("#5b4a8a", "on-dark"),
            Self::Cpu(Cause::User) => ("#b9c48f", "on-light"),
            Self::Cpu(Cause::Hidden) => ("#3c434b", "on-dark"),
            Self::Cpu(Cause::Other) => ("#727a83", "on-dark"),
            Self::Runnable | Self::Asleep => ("", ""),
        }
    }
}

/// A side's parts in ns per page, and their sum; what cannot be drawn is left out.
pub fn parts(side: &SideProfile) -> Vec<(Part, f64)> {
    let per_page = |seconds: f64| seconds * 1e9 / side.pages;
    let of = |part| match part {
        Part::Cpu(cause) => side
            .causes
            .iter()
            .filter(|c| c.cause == cause)
            .filter_map(|c| drawable(c.ns_per_page))
            .sum(),
        Part::Runnable => per_page(side.runnable_s),
        Part::Asleep => per_page(side.blocked_s),
    };
    Part::all()
        .filter_map(|part| Some((part, drawable(of(part))?)))
        .collect()
}

/// Nanoseconds per page by cause, for each rung and side. A bar is one side's whole time; rungs differ a thousandfold, so each
/// has a scale of its own.
pub fn causes(profile: &Profile) -> Chart {
    of(profile, "causes")
}

/// The same; `id` is unique in the page.
pub(super) fn of(profile: &Profile, id: &str) -> Chart {
    let travel = profile
        .rungs
        .iter()
        .find_map(|r| drawable(r.line_travel_ns.before?))
        .map_or_else(String::new, |ns| {
            format!(" A cache line travels {} ns.", number(ns))
        });
    Chart::new(
        "Where the time of a page goes",
        vec![
            machine_line(&profile.head.machine),
            format!(
                "ns of CPU time and of waiting per 4096 bytes, by side. Each rung has a scale of its own: its longer side is the whole width.{travel}"
            ),
        ],
        format!(
            "Stacked bar chart of {} rungs, a bar for the writer and one for the reader. The table below has every figure.",
            profile.rungs.len()
        ),
        |layout| draw(&profile.rungs, id, layout),
    )
}

fn draw(rungs: &[ByState<RungProfile>], id: &str, layout: Layout) -> Drawing {
    let narrow = layout.is_narrow();
    let pattern = format!("{id}-{}", if narrow { "n" } else { "w" });
    let legend = legend(rungs, layout, &pattern);
    let shown = &rungs[..rungs.len().min(MOST)];
    // Left of the bars stand the sides, and in a wide picture left of those the rungs.
    let sides = TEXT.width("reader").max(TEXT.width("writer")) + 8.0;
    let ids = shown.iter().map(|rung| {
        let total = TEXT.width(&total(rung));
        STRONG.width(&safe(&rung.id)).min(250.0).max(total) + 8.0
    });
    let ids = if narrow {
        0.0
    } else {
        ids.fold(0.0, f64::max).ceil()
    };
    let (left, right) = (px(ids + sides), layout.width());
    let height = |rung: &ByState<RungProfile>| {
        let sides = 23.0 * rung.sides.len().clamp(1, 2) as f64;
        sides + if narrow { 34.0 } else { 14.0 }
    };
    let tops = shown.iter().scan(legend.height, |y, rung| {
        let top = *y;
        *y += height(rung);
        Some(top)
    });
    let bottom = legend.height + shown.iter().map(height).sum::<f64>();
    let more = rungs.len() - shown.len();
    let body = html! {
        defs {
            pattern id=(pattern) width="8" height="8" patternUnits="userSpaceOnUse" patternTransform="rotate(45)" {
                path.idle-line d="M0 0V8" {}
            }
        }
        (legend.body)
        @for (rung, top) in shown.iter().zip(tops) {
            @let sides: Vec<_> = rung.sides.iter().take(2).map(|s| (s, parts(s))).collect();
            @let whole = sides.iter().map(|(_, p)| sum(p)).fold(0.0, f64::max);
            @let total = total(rung);
            @let room = if narrow { right - TEXT.width(&total) - 8.0 } else { ids - 8.0 };
            @let (total_x, total_y) = if narrow { (right, top + 16.0) } else { (0.0, top + 34.0) };
            text.strong x="0" y=(top + 16.0) { (STRONG.fitted(&safe(&rung.id), room)) }
            text.soft.(if narrow { "end" } else { "" }) x=(total_x) y=(total_y) { (total) }
            @let first = if narrow { top + 22.0 } else { top };
            @for (i, (side, parts)) in sides.iter().enumerate() {
                @let at = first + 23.0 * i as f64;
                text.soft.end x=(left - 8.0) y=(at + 15.0) { (explain::name(side.side)) }
                (stack(parts, whole, (left, right), at, &pattern))
            }
        }
        @if more > 0 {
            text.soft x="0" y=(bottom + 14.0) { "… and " (more) " more in the table" }
        }
    };
    Drawing {
        height: bottom + if more > 0 { 20.0 } else { 0.0 },
        body,
    }
}

/// The time of a page, or why there is none.
fn total(rung: &RungProfile) -> String {
    match (&rung.refused, drawable(rung.ns_per_page)) {
        (Some(_), _) => "refused".into(),
        (None, Some(ns)) => number(ns) + " ns per page",
        (None, None) => String::new(),
    }
}

fn sum(parts: &[(Part, f64)]) -> f64 {
    parts.iter().map(|(_, ns)| ns).sum()
}

fn stack(
    parts: &[(Part, f64)],
    whole: f64,
    (left, right): (f64, f64),
    y: f64,
    pattern: &str,
) -> Markup {
    let scale = (right - left) / whole;
    let starts = parts.iter().scan(left, |x, (_, ns)| {
        let start = *x;
        *x += ns * scale;
        Some(start)
    });
    html! {
        @for ((part, ns), x) in parts.iter().zip(starts) {
            @let width = ns * scale;
            (block(*part, x, y, width, 20.0, pattern, &format!("{}: {} ns per page", part.name(), number(*ns))))
            @let (_, text) = part.look();
            @let words = label(*part, *ns, width);
            @if !words.is_empty() {
                text.(text) x=(px(x + 5.0)) y=(y + 14.5) { (words) }
            }
        }
    }
}

/// What a block has room for: its name and its figure, or the figure, or nothing.
fn label(part: Part, ns: f64, width: f64) -> String {
    let figure = number(ns);
    [format!("{} {figure}", part.name()), figure]
        .into_iter()
        .find(|words| TEXT.width(words) + 8.0 <= width)
        .unwrap_or_default()
}

fn block(part: Part, x: f64, y: f64, width: f64, height: f64, pattern: &str, tip: &str) -> Markup {
    let (fill, _) = part.look();
    html! {
        @match part {
            Part::Cpu(_) => {
                rect.gap x=(px(x)) y=(y) width=(px(width)) height=(height) fill=(fill) { title { (tip) } }
            }
            Part::Runnable | Part::Asleep => {
                rect.idle x=(px(x)) y=(y) width=(px(width)) height=(height) { title { (tip) } }
                @if part == Part::Runnable {
                    rect x=(px(x)) y=(y) width=(px(width)) height=(height) fill=(format!("url(#{pattern})")) { title { (tip) } }
                }
            }
        }
    }
}

fn legend(rungs: &[ByState<RungProfile>], layout: Layout, pattern: &str) -> Drawing {
    let sides = || rungs.iter().flat_map(|r| &r.sides);
    let seen = Part::all().filter(|part| sides().any(|s| parts(s).iter().any(|(p, _)| p == part)));
    let mut flow = Flow::new(layout.width(), 0.0);
    let body = html! {
        @for part in seen {
            @let (x, y) = flow.place(21.0 + TEXT.width(part.name()));
            (block(part, x + 0.5, y + 2.5, 15.0, 12.0, pattern, part.name()))
            text.soft x=(px(x + 21.0)) y=(y + 13.0) { (part.name()) }
        }
    };
    Drawing {
        height: flow.bottom() + 32.0,
        body,
    }
}
