use serde_json::{Value, json};

use super::*;
use crate::saved::load::load;

const SAVED: &str = include_str!("../../tests/data/ladder.json");

fn group(name: &str, documents: &[Value]) -> RunGroup {
    let load = |d: &Value| load(&d.to_string()).unwrap();
    RunGroup {
        name: name.to_owned(),
        runs: documents.iter().map(load).collect(),
    }
}

/// A ladder of two rungs, the second `step` times as fast as the first; every rate times `scale`, and a little noise.
fn ladder(scale: f64, step: f64, rounds: usize, state: &str) -> Value {
    let old: Value = serde_json::from_str(SAVED).unwrap();
    let mut document = old.clone();
    let side = old["rungs"][0]["samples"][0]["writer"].clone();
    let rungs = ["write-read", "busy-loop"]
        .iter()
        .zip([1.0, step])
        .map(|(id, step)| {
            let samples = (0..rounds).map(|round| {
                let noise = 1.0 + 0.01 * ((round * 7 + id.len()) % 5) as f64;
                json!({
                    "round": round, "gib_per_s": 10.0 * scale * step * noise, "state": state,
                    "line_travel_ns": {"before": 30.0, "after": 30.0}, "steal": 0.0,
                    "writer": side, "reader": side,
                })
            });
            let mut rung = old["rungs"][0].clone();
            rung["id"] = (*id).into();
            rung["state"] = state.into();
            rung["apart"] = json!([]);
            rung["samples"] = samples.collect();
            rung
        });
    document["rungs"] = rungs.collect();
    document
}

fn row<'a>(comparison: &'a Comparison, id: &str) -> &'a ComparedRow {
    let (_, row) = comparison.rows().find(|(_, row)| row.id == id).unwrap();
    row
}

#[test]
fn a_run_does_not_differ_from_itself() {
    let run: Value = serde_json::from_str(SAVED).unwrap();
    let same = compare(&[group("a", std::slice::from_ref(&run)), group("b", &[run])]).unwrap();
    assert!(same.has_ratios() && same.differences.is_empty());
    for (_, row) in same.rows() {
        let ratio = row.ratio.unwrap();
        assert!((ratio.median - 1.0).abs() < 1e-9, "{row:?}");
        assert_eq!(row.verdict, Some(Verdict::NotDistinguishable), "{row:?}");
    }
    assert_eq!(same.slower_by(0.0).count(), 0);
}

#[test]
fn a_slower_run_is_told_with_its_interval_and_the_way_inside_it_stayed_the_same() {
    let (a, b) = (ladder(1.0, 5.0, 9, "near"), ladder(0.8, 5.0, 9, "near"));
    let comparison = compare(&[group("a", &[a]), group("b", &[b])]).unwrap();
    let busy = row(&comparison, "busy-loop");
    assert!((busy.ratio.unwrap().median - 0.8).abs() < 1e-9);
    assert_eq!(busy.verdict, Some(Verdict::Slower));
    assert_eq!(busy.verdict_inside, Some(Verdict::NotDistinguishable));
    assert!((busy.base.as_ref().unwrap().to_first.unwrap().median - 5.0).abs() < 0.3);
    // By some 20 %, less what the interval leaves open.
    assert_eq!(comparison.slower_by(10.0).count(), 2);
    assert_eq!(comparison.slower_by(20.0).count(), 0);
}

#[test]
fn a_faster_way_in_a_slower_run_is_seen_inside() {
    let (a, b) = (ladder(1.0, 5.0, 9, "near"), ladder(0.5, 7.0, 9, "near"));
    let comparison = compare(&[group("a", &[a]), group("b", &[b])]).unwrap();
    let busy = row(&comparison, "busy-loop");
    assert_eq!(busy.verdict, Some(Verdict::Slower));
    assert_eq!(busy.verdict_inside, Some(Verdict::Faster));
}

#[test]
fn few_trials_call_nothing_whatever_they_say() {
    let (a, b) = (ladder(1.0, 5.0, 3, "near"), ladder(0.1, 5.0, 3, "near"));
    let comparison = compare(&[group("a", &[a]), group("b", &[b])]).unwrap();
    assert_eq!(
        row(&comparison, "busy-loop").verdict,
        Some(Verdict::NotDistinguishable)
    );
    assert_eq!(comparison.slower_by(0.0).count(), 0);
    assert!(comparison.warnings[0].contains("too few trials in 2 of 2 lines"));
}

#[test]
fn near_is_never_compared_with_far_and_what_moved_with_nothing() {
    let near = || ladder(1.0, 5.0, 9, "near");
    let comparison = compare(&[
        group("a", &[near()]),
        group("b", &[ladder(0.1, 5.0, 9, "far")]),
    ])
    .unwrap();
    assert!(!comparison.has_ratios());
    assert_eq!(comparison.rows().count(), 4);
    for state in ["moved", "unknown"] {
        let groups = [
            group("a", &[near()]),
            group("b", &[ladder(0.1, 5.0, 9, state)]),
        ];
        let comparison = compare(&groups).unwrap();
        assert!(!comparison.has_ratios());
        let warning = comparison.warnings.last().unwrap();
        assert!(warning.starts_with("B: 18 trials"), "{warning}");
    }
}

#[test]
fn differences_between_machines_are_told_and_hardware_is_warned_of() {
    let mut other = ladder(1.0, 5.0, 9, "near");
    other["machine"]["kernel"] = "6.1".into();
    other["machine"]["governor"] = "powersave".into();
    other["machine"]["mitigations"]["spectre_v2"] = "Vulnerable".into();
    let base = || group("a", &[ladder(1.0, 5.0, 9, "near")]);
    let comparison = compare(&[base(), group("b", &[other.clone()])]).unwrap();
    let of = |what: &str| {
        let found = comparison.differences.iter().find(|d| d.what == what);
        found.unwrap_or_else(|| panic!("{what}")).values[1].clone()
    };
    assert_eq!(of("kernel"), "6.1");
    assert_eq!(of("governor"), "powersave");
    assert_eq!(of("mitigation of spectre_v2"), "Vulnerable");
    assert_eq!(comparison.differences.len(), 3);
    // Another kernel on the same hardware is what this is for.
    assert!(comparison.warnings.is_empty(), "{:?}", comparison.warnings);
    other["machine"]["cpu_model"] = "8086".into();
    let comparison = compare(&[base(), group("b", &[other])]).unwrap();
    assert!(comparison.warnings[0].contains("machines differ (CPU)"));
}

#[test]
fn hosts_are_grouped_by_kernel_and_cpu_and_count_as_one_sample_each() {
    let host = |kernel: &str, scale| {
        let mut host = ladder(scale, 5.0, 9, "near");
        host["machine"]["kernel"] = kernel.into();
        load(&host.to_string()).unwrap()
    };
    let few = vec![
        host("6.1", 1.0),
        host("6.18", 0.5),
        host("6.1", 1.01),
        host("6.18", 0.51),
    ];
    let groups = group_by_machine(few);
    assert_eq!(groups.len(), 2);
    assert_eq!(groups[0].name, "Linux 6.1, AMD EPYC");
    assert_eq!(groups[0].runs.len(), 2);
    let comparison = compare(&groups).unwrap();
    let busy = row(&comparison, "busy-loop");
    assert_eq!(
        (
            busy.base.as_ref().unwrap().runs,
            busy.base.as_ref().unwrap().trials
        ),
        (2, 18)
    );
    assert_eq!(busy.verdict, Some(Verdict::NotDistinguishable));
    let many = (0..14).map(|i| {
        let (kernel, scale) = if i < 7 { ("6.1", 1.0) } else { ("6.18", 0.5) };
        host(kernel, scale * (1.0 + 0.01 * f64::from(i % 7)))
    });
    let comparison = compare(&group_by_machine(many.collect())).unwrap();
    assert_eq!(row(&comparison, "busy-loop").verdict, Some(Verdict::Slower));
}

#[test]
fn times_are_compared_the_other_way_round() {
    let trips = |us: f64| {
        let samples: Vec<_> = (0..9)
            .map(|round| {
                json!({"round": round, "gib_per_s": 1.0, "state": "near", "line_travel_ns": {"before": 1.0, "after": 1.0},
                    "round_trips": {"count": 100, "median_us": us + 0.01 * f64::from(round), "p99_us": 2.0 * us}})
            })
            .collect();
        let old: Value = serde_json::from_str(SAVED).unwrap();
        json!({"schema": "fullbore.sweep/1", "version": "0.1.0", "started_unix_s": 1, "machine": old["machine"],
            "method": {"cpus": [0, 1], "rounds": 9, "rounds_done": 9, "warm_up_s": 0.1, "seconds": 0.1, "seed": 1,
                "write_with": "write", "read_with": "read", "pages": "small", "wait": "block"},
            "buffers": [65536], "capacities": [4096], "warnings": [],
            "cells": [{"buffer": 65536, "capacity": 4096, "samples": samples}]})
    };
    let comparison = compare(&[group("a", &[trips(5.0)]), group("b", &[trips(10.0)])]).unwrap();
    let row = row(&comparison, "1 B through 4KiB");
    assert_eq!((row.unit, row.verdict), (Unit::Us, Some(Verdict::Slower)));
    assert!((row.ratio.unwrap().median - 0.5).abs() < 0.01);
}

#[test]
fn kinds_are_not_mixed_and_one_run_is_not_enough() {
    let error = |groups: &[RunGroup]| compare(groups).unwrap_err().to_string();
    let a = || group("a", &[ladder(1.0, 5.0, 1, "near")]);
    assert!(error(&[a()]).contains("there is only one run"));
    assert!(compare(&[]).is_err());
    let old: Value = serde_json::from_str(SAVED).unwrap();
    let profile = json!({"schema": "fullbore.profile/1", "version": "0.1.0", "started_unix_s": 1, "machine": old["machine"],
        "method": {"cpus": [0, 1], "seconds": 1.0, "frequency_hz": 999, "event": "cycles", "kernel": true},
        "rungs": [], "warnings": []});
    let profiles = || group("p", std::slice::from_ref(&profile));
    assert!(error(&[a(), profiles()]).contains("different kinds: ladder, profile"));
    assert!(error(&[profiles(), profiles()]).contains("says nothing about noise"));
}
