//! What a call did, in a sentence.

use fullbore_sys::size::Size;

use super::model::{Outcome, Part, Pipe, Pipes, Refusal, What};
use super::script::{Op, Script, Step, Which};
use crate::show::number::count;

/// A step that was made: what was asked for, what came of it, and how the pipes look afterwards.
#[derive(Clone, Debug)]
pub struct StepResult {
    /// The call.
    pub step: Step,
    /// What it returned.
    pub outcome: Outcome,
    /// What happened.
    pub sentence: String,
    /// The pipes afterwards.
    pub pipes: Pipes,
}

impl StepResult {
    /// Whether this step cannot be seen without the second pipe.
    pub fn needs_second(&self) -> bool {
        let goes_there = matches!(self.step.op, Op::Splice(_) | Op::Tee(_));
        goes_there || self.step.on == Which::Second
    }
}

impl Pipes {
    /// Makes the calls of a script, one after the other.
    pub fn run(mut self, script: &Script) -> Vec<StepResult> {
        let mut results = Vec::new();
        for &step in &script.0 {
            let before = self.clone();
            let outcome = self.call(step);
            results.push(StepResult {
                step,
                sentence: sentence(step, &outcome, &before, &self),
                outcome,
                pipes: self.clone(),
            });
        }
        results
    }
}

/// How full a pipe is: `2 of 8 slots in use, 5000 of 32768 bytes; 3192 bytes may be merged into the last page`.
pub fn state(pipe: &Pipe) -> String {
    let mut text = format!(
        "{} of {} slot{} in use, {} of {}",
        pipe.used(),
        pipe.slots().len(),
        if pipe.slots().len() == 1 { "" } else { "s" },
        pipe.bytes(),
        count(pipe.capacity(), "byte"),
    );
    match (pipe.is_full(), pipe.room_in_last_page()) {
        (true, 0) => text += "; full: a writer would block",
        (true, room) => {
            text += &format!("; full, but {} fit into the last page", count(room, "byte"));
        }
        (_, 0) => {}
        (_, room) => text += &format!("; {} may be merged into the last page", count(room, "byte")),
    }
    if pipe.is_empty() {
        text += "; empty: a reader would block";
    }
    text
}

fn sentence(step: Step, outcome: &Outcome, before: &Pipes, after: &Pipes) -> String {
    if let Some(refusal) = outcome.refusal {
        return refused(step, refusal, outcome, before);
    }
    if outcome.asked == 0 && !matches!(step.op, Op::Resize(_)) {
        return "nothing was asked for, and nothing happened".to_owned();
    }
    let text = match step.op {
        Op::Write(len) => {
            let odd = len % before.page_size();
            written(
                odd,
                &outcome.parts,
                before.pipe(step.on),
                after.pipe(step.on),
            )
        }
        Op::Read(_) => read(&outcome.parts),
        Op::Vmsplice { .. } => format!(
            "{} of your own memory, {}; nothing was copied, and nothing will be merged into your pages",
            slots(outcome.parts.len()),
            sum(&outcome.parts),
        ),
        Op::Fat(_) => format!(
            "{} of {}, straight from a socket; a slot is a slot, whatever it holds",
            slots(outcome.parts.len()),
            Size(super::FAT as u64),
        ),
        Op::Splice(_) => spliced(step.on, &outcome.parts),
        Op::Tee(_) => format!(
            "{} of the {} pipe filled, {}; both pipes refer to the same pages now",
            slots(outcome.parts.len()),
            name(step.on.other()),
            sum(&outcome.parts),
        ),
        Op::Resize(_) => return resized(step.on, outcome, before),
    };
    if outcome.moved < outcome.asked {
        format!("{text}. {}", short(step, outcome, before))
    } else {
        text
    }
}

fn written(odd: usize, parts: &[Part], before: &Pipe, after: &Pipe) -> String {
    let (merged, new): (Vec<&Part>, Vec<&Part>) =
        parts.iter().partition(|p| p.what == What::Merged);
    let mut text = String::new();
    if let Some(part) = merged.first() {
        text = format!(
            "{} merged into the last page ({}, after its first {})",
            count(part.len, "byte"),
            part.page,
            part.offset
        );
        if new.is_empty() {
            return text + "; no slot taken";
        }
        text += ", then ";
    }
    text += &format!("{}, {}", slots(new.len()), sum(&new));
    let (room, left) = (before.room_in_last_page(), after.room_in_last_page());
    if merged.is_empty() && room > 0 {
        text += &match odd {
            0 => "; whole pages are never merged".to_owned(),
            _ => format!("; {odd} did not fit into the {room} left in the last page"),
        };
    }
    if new.is_empty() || left == 0 {
        return text;
    }
    let which = match new.len() {
        1 => "it",
        2 => "the second",
        _ => "the last",
    };
    text + &format!("; {which} may be merged into")
}

fn read(parts: &[Part]) -> String {
    let emptied = parts.iter().filter(|p| p.what == What::Emptied).count();
    let copied = count(parts.iter().map(|p| p.len).sum(), "byte");
    let mut text = format!("{copied} copied out");
    if emptied > 0 {
        text += &format!("; {} emptied and free again", slots(emptied));
    }
    if let Some(part) = parts.iter().find(|p| p.what == What::Shortened) {
        text += &format!(
            "; slot {} now begins at byte {} of its page, and stays taken",
            part.place,
            part.offset + part.len
        );
    }
    text
}

fn spliced(from: Which, parts: &[Part]) -> String {
    let to = name(from.other());
    let moved: Vec<_> = parts.iter().filter(|p| p.what == What::Moved).collect();
    let mut text = match moved.len() {
        0 => String::new(),
        n => format!(
            "{} moved to the {to} pipe as they are, {}; not a byte was touched",
            slots(n),
            sum(&moved)
        ),
    };
    if moved.len() == 1 {
        text = text.replace("as they are", "as it is");
    }
    if let Some(part) = parts.iter().find(|p| p.what == What::Split) {
        let and = if text.is_empty() { "" } else { "; " };
        text += &format!(
            "{and}the first {} of the next slot went to a slot of the {to} pipe: both pipes refer to page {} now",
            count(part.len, "byte"),
            part.page
        );
    }
    text
}

fn resized(on: Which, outcome: &Outcome, before: &Pipes) -> String {
    let (old, page) = (before.pipe(on), before.page_size());
    let mut text = format!(
        "{} became {}, {}",
        slots(old.slots().len()),
        outcome.moved / page,
        Size(outcome.moved as u64)
    );
    if outcome.moved != outcome.asked {
        text += &format!(
            " (rounded up from {} to a power of two)",
            count(outcome.asked, "byte")
        );
    }
    if old.tail() != 0 {
        text += "; in the new array the tail is at 0 again";
    }
    text
}

/// Why fewer bytes were moved than asked for.
fn short(step: Step, outcome: &Outcome, before: &Pipes) -> String {
    let Outcome { asked, moved, .. } = outcome;
    let takes = matches!(step.op, Op::Read(_) | Op::Splice(_) | Op::Tee(_));
    let why = if takes && *moved == before.pipe(step.on).bytes() {
        "there were no more".to_owned()
    } else if takes {
        format!("the {} pipe is full", name(step.on.other()))
    } else {
        "the ring is full".to_owned()
    };
    format!("Short: {moved} of {asked} bytes, because {why}")
}

fn refused(step: Step, refusal: Refusal, outcome: &Outcome, before: &Pipes) -> String {
    let (on, to) = (before.pipe(step.on), before.pipe(step.on.other()));
    let full = |pipe: &Pipe, name: &str| {
        let mut text = format!("all {} of {name} are taken", slots(pipe.slots().len()));
        if pipe.bytes() < pipe.capacity() {
            text += &format!(
                ", though they hold only {} of {}",
                pipe.bytes(),
                count(pipe.capacity(), "byte")
            );
        }
        text
    };
    let why = match (step.op, refusal) {
        (Op::Resize(_), Refusal::Busy) => format!(
            "{} are in use, and {} would be left",
            slots(on.used()),
            outcome
                .asked
                .next_power_of_two()
                .div_ceil(before.page_size())
        ),
        (Op::Resize(_), _) => "a pipe holds at most 2 GiB".to_owned(),
        (Op::Read(_) | Op::Splice(_) | Op::Tee(_), _) if on.is_empty() => {
            "there is nothing to read".to_owned()
        }
        (Op::Splice(_) | Op::Tee(_), _) => full(to, &format!("the {} pipe", name(step.on.other()))),
        _ => full(on, "the ring"),
    };
    let how = match refusal {
        Refusal::WouldBlock => "would block (EAGAIN)",
        Refusal::Busy => "refused (EBUSY)",
        Refusal::Invalid => "refused (EINVAL)",
    };
    format!("{how}: {why}")
}

fn name(which: Which) -> &'static str {
    match which {
        Which::First => "first",
        Which::Second => "second",
    }
}

fn slots(n: usize) -> String {
    const WORDS: [&str; 13] = [
        "no", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten",
        "eleven", "twelve",
    ];
    let s = if n == 1 { "" } else { "s" };
    match WORDS.get(n) {
        Some(word) => format!("{word} slot{s}"),
        None => format!("{n} slots"),
    }
}

/// `4096 + 904 bytes`; equal ones in a row are counted: `3 × 4096 + 904 bytes`.
fn sum<'a, P: std::borrow::Borrow<Part> + 'a>(parts: impl IntoIterator<Item = &'a P>) -> String {
    let mut runs: Vec<(usize, usize)> = Vec::new();
    for len in parts.into_iter().map(|p| p.borrow().len) {
        match runs.last_mut() {
            Some((of, n)) if *of == len => *n += 1,
            _ => runs.push((len, 1)),
        }
    }
    let long = runs.len() > 6;
    let texts: Vec<_> = runs
        .iter()
        .take(if long { 5 } else { 6 })
        .map(|&(len, n)| match n {
            1 => len.to_string(),
            n => format!("{n} × {len}"),
        })
        .collect();
    let more = if long { " + …" } else { "" };
    let one = matches!(runs[..], [(1, 1)]);
    format!(
        "{}{more} {}",
        texts.join(" + "),
        if one { "byte" } else { "bytes" }
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sentences(slots: usize, script: &str) -> Vec<String> {
        let script = script.parse().unwrap();
        let results = Pipes::new(4096, slots).run(&script);
        results.into_iter().map(|t| t.sentence).collect()
    }

    #[test]
    fn the_story_of_the_issue_is_told() {
        assert_eq!(
            sentences(8, "write 5000; read 1000; write 4096; splice 2"),
            [
                "two slots, 4096 + 904 bytes; the second may be merged into",
                "1000 bytes copied out; slot 0 now begins at byte 1000 of its page, and stays taken",
                "one slot, 4096 bytes; whole pages are never merged",
                "two slots moved to the second pipe as they are, 3096 + 904 bytes; not a byte was touched",
            ]
        );
    }

    #[test]
    fn short_and_refused_calls_say_why() {
        let results = sentences(
            2,
            "vmsplice 2 at 4095; write 1; resize 1; read 1; write 5000; read 100K; read 1; fat 2; tee 9; tee 1",
        );
        assert_eq!(
            results[1],
            "would block (EAGAIN): all two slots of the ring are taken, though they hold only 2 of 8192 bytes"
        );
        assert_eq!(
            results[2],
            "refused (EBUSY): two slots are in use, and 1 would be left"
        );
        assert_eq!(
            results[4],
            "one slot, 4096 bytes. Short: 4096 of 5000 bytes, because the ring is full"
        );
        assert_eq!(results[6], "would block (EAGAIN): there is nothing to read");
        assert_eq!(
            results[8],
            "two slots of the second pipe filled, 2 × 32768 bytes; both pipes refer to the same pages now. \
             Short: 65536 of 94208 bytes, because there were no more"
        );
        assert_eq!(
            results[9],
            "would block (EAGAIN): all two slots of the second pipe are taken"
        );
    }

    #[test]
    fn equal_lengths_are_counted() {
        assert_eq!(sentences(16, "write 40961")[0], {
            "eleven slots, 10 × 4096 + 1 bytes; the last may be merged into"
        });
    }
}
