//! What is chosen, against machines that are made up.

use super::*;

const ALL: [Way; 4] = [Way::Cow, Way::Fresh, Way::Fat, Way::Copy];

/// A machine: µs that each MiB takes by a form.
type Machine = fn(Form) -> u64;

/// Writes `total` bytes in pieces of 1 MiB, and returns how many went by each form.
fn spend(choice: &mut Choice, total: u64, machine: Machine) -> Vec<(Form, u64)> {
    let mut spent: Vec<(Form, u64)> = Vec::new();
    for _ in 0..total / MIB {
        let form = choice.current();
        match spent.iter_mut().find(|(f, _)| *f == form) {
            Some((_, bytes)) => *bytes += MIB,
            None => spent.push((form, MIB)),
        }
        choice.record(
            form,
            MIB as usize,
            Duration::from_micros(machine(form)),
            true,
        );
    }
    spent
}

fn by(spent: &[(Form, u64)], is: impl Fn(Form) -> bool) -> u64 {
    let those = spent.iter().filter(|(f, _)| is(*f));
    those.map(|(_, bytes)| bytes).sum()
}

fn ahead() -> Limits {
    Limits {
        ahead: 3 << 20,
        ..Limits::default()
    }
}

/// Its name, what it does, and which form is the best on it.
type Named = (&'static str, Machine, fn(Form) -> bool);

/// Each of these has another best form.
const MACHINES: [Named; 6] = [
    (
        "far CPUs, filling ahead gains",
        |f| match (f.way, f.round.ahead) {
            (Way::Cow, 0) => 130,
            (Way::Cow, _) => 88,
            (Way::Fresh, 0) => 208,
            (Way::Fresh, _) => 137,
            (Way::Fat, 0) => 190,
            (Way::Fat, _) => 132,
            (Way::Copy, _) => 400,
        },
        |f| f.way == Way::Cow && f.round.ahead > 0,
    ),
    (
        "near CPUs, a large pool leaves the cache",
        |f| match (f.way, f.round.pool >= 64 << 20) {
            (Way::Cow, false) => 42,
            (Way::Cow, true) => 58,
            (Way::Fresh, _) if f.round.keep => 55,
            (Way::Fresh, _) => 90,
            (Way::Fat, _) => 95,
            (Way::Copy, _) => 260,
        },
        |f| f.way == Way::Cow && f.round.pool < 64 << 20,
    ),
    (
        "turns are dear, a large pool pays",
        |f| match (f.way, f.round.pool >= 64 << 20) {
            (Way::Cow, false) => 150,
            (Way::Cow, true) => 110,
            (Way::Fresh, _) => 130,
            (Way::Fat, _) => 140,
            (Way::Copy, _) => 300,
        },
        |f| f.way == Way::Cow && f.round.pool == 64 << 20,
    ),
    (
        "one CPU, where being ahead costs",
        |f| {
            let ahead = if f.round.ahead > 0 { 10 } else { 0 };
            ahead
                + match f.way {
                    Way::Fat => 100,
                    Way::Cow => 130,
                    Way::Fresh => 150,
                    Way::Copy => 160,
                }
        },
        |f| f.way == Way::Fat && f.round.ahead == 0,
    ),
    (
        "pages that are not kept are better",
        |f| match f.way {
            Way::Fresh if f.round.keep => 200,
            Way::Fresh => 120,
            _ => 220,
        },
        |f| f.way == Way::Fresh && !f.round.keep,
    ),
    (
        "write(2) is the best",
        |f| if f.way == Way::Copy { 100 } else { 300 },
        |f| f.way == Way::Copy,
    ),
];

#[test]
fn the_best_form_is_found_and_gets_nearly_all_bytes() {
    let total = 40 << 30;
    for (name, machine, best) in MACHINES {
        let mut choice = Choice::new(&ALL, ahead());
        let first = spend(&mut choice, 8 << 30, machine);
        let spent = spend(&mut choice, total, machine);
        assert!(best(choice.candidates[0].form), "{name}: {first:?}");
        let part = by(&spent, best) as f64 / total as f64;
        assert!(part > 0.95, "{name}: {part} {spent:?}");
        for way in ALL {
            let all = by(&first, |f| f.way == way) + by(&spent, |f| f.way == way);
            assert!(all > 0, "{name}: {way} {spent:?}");
        }
    }
}

/// The best of those that are tried first: each way once, as far ahead as may be.
#[test]
fn the_first_64_mib_find_the_best_way() {
    for (name, machine, _) in MACHINES {
        for limits in [Limits::default(), ahead()] {
            let mut choice = Choice::new(&ALL, limits);
            let first: Vec<_> = choice
                .candidates
                .iter()
                .filter(|c| (1..LATE).contains(&c.rank))
                .collect();
            let best = first.iter().map(|c| machine(c.form)).min().expect("some");
            spend(&mut choice, 64 << 20, machine);
            let found = machine(choice.candidates[0].form);
            assert!(found as f64 <= best as f64 * 1.1, "{name}: {found}, {best}");
        }
    }
}

#[test]
fn trials_take_a_fiftieth_of_the_bytes() {
    let (total, mut choice) = (100 << 30, Choice::new(&ALL, ahead()));
    let spent = spend(&mut choice, total, MACHINES[0].1);
    let best = choice.candidates[0].form;
    let others = by(&spent, |f| f != best);
    assert!(others < total / 40, "{spent:?}");
}

#[test]
fn equal_forms_do_not_alternate() {
    let (total, mut choice) = (20 << 30, Choice::new(&ALL, ahead()));
    let spent = spend(&mut choice, total, |f| 100 - f.round.ahead.min(2) as u64);
    let most = spent.iter().map(|(_, bytes)| bytes).max();
    assert!(most.is_some_and(|&m| m > total / 10 * 9), "{spent:?}");
}

#[test]
fn a_change_of_the_machine_is_noticed_within_some_hundred_mib() {
    let mut choice = Choice::new(&ALL, ahead());
    for (name, machine, best) in MACHINES.iter().chain(&MACHINES) {
        spend(&mut choice, 40 << 30, *machine);
        assert!(best(choice.candidates[0].form), "{name}");
    }
    // It has become much slower: at once.
    let mut choice = Choice::new(&ALL, ahead());
    spend(&mut choice, 8 << 30, MACHINES[1].1);
    assert_eq!(choice.candidates[0].form.way, Way::Cow);
    spend(&mut choice, 512 << 20, |f| match f.way {
        Way::Cow => 200,
        Way::Fresh => 90,
        _ => 210,
    });
    assert_eq!(choice.candidates[0].form.way, Way::Fresh);
}

#[test]
fn a_way_that_comes_back_is_tried_at_once_and_taken_while_it_is_faster() {
    let machine = MACHINES[1].1;
    let mut choice = Choice::new(&ALL, Limits::default());
    choice.remove(Way::Cow);
    spend(&mut choice, 1 << 30, machine);
    assert_eq!(choice.candidates[0].form.way, Way::Fresh);
    choice.add(Way::Cow);
    assert_eq!(choice.current().way, Way::Cow);
    spend(&mut choice, 8 << 30, machine);
    assert_eq!(choice.candidates[0].form.way, Way::Cow);
    let mut early = Choice::new(&[Way::Copy], Limits::default());
    early.add(Way::Fresh);
    assert_eq!(early.current().way, Way::Fresh);
    let mut only = Choice::new(&[Way::Fresh], Limits::default());
    only.remove(Way::Fresh);
    assert_eq!(only.current().way, Way::Copy);
    only.add(Way::Fresh);
    assert_eq!(only.current().way, Way::Fresh);
}

#[test]
fn a_way_that_was_refused_is_not_tried_and_without_any_it_is_write() {
    let mut choice = Choice::new(&ALL, ahead());
    choice.remove(Way::Cow);
    let spent = spend(&mut choice, 10 << 30, MACHINES[0].1);
    assert_eq!(by(&spent, |f| f.way == Way::Cow), 0);
    for way in ALL {
        choice.remove(way);
    }
    assert_eq!(choice.current().way, Way::Copy);
    spend(&mut choice, 1 << 30, MACHINES[0].1);
}

#[test]
fn nothing_waits_until_it_may() {
    let mut choice = Choice::new(&ALL, Limits::default());
    let spent = spend(&mut choice, 4 << 30, MACHINES[0].1);
    assert_eq!(by(&spent, |f| f.round.ahead > 0), 0);
    choice.allow_ahead(3 << 20);
    spend(&mut choice, 4 << 30, MACHINES[0].1);
    assert_eq!(choice.candidates[0].form.round.ahead, 3 << 20);
}
