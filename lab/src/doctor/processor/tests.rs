use super::*;
use crate::doctor::CheckState;

fn facts() -> Facts {
    Facts {
        allowed: 2,
        pair: Some(CpuPair {
            writer: 0,
            reader: 1,
            shared_cache: Some("L3, 32 MiB".into()),
        }),
        quota: Some(None),
        mitigations: BTreeMap::new(),
        tells_mitigations: true,
        hypervisor: None,
        tells_hypervisor: true,
        steal: Some(0.0),
        governor: None,
        cpufreq: Presence::Absent,
        pressure: BTreeMap::new(),
    }
}

fn known(median: f64) -> Option<Estimate> {
    Some(Estimate {
        median,
        ci95: [median, median],
    })
}

#[test]
fn one_cpu_and_cpus_that_share_nothing_cost() {
    assert_eq!(cpus(&facts()).state, CheckState::Ok);
    let pair = |reader| CpuPair {
        writer: 0,
        reader,
        shared_cache: None,
    };
    for reader in [0, 1] {
        let facts = Facts {
            pair: Some(pair(reader)),
            ..facts()
        };
        assert_eq!(cpus(&facts).state, CheckState::Costs);
    }
    let unknown = Facts {
        pair: None,
        ..facts()
    };
    assert_eq!(cpus(&unknown).state, CheckState::Unknown);
}

#[test]
fn a_quota_below_two_cpus_costs() {
    assert_eq!(quota_of(Some(Some(1.5))).state, CheckState::Costs);
    assert_eq!(quota_of(Some(Some(4.0))).state, CheckState::Ok);
    assert_eq!(quota_of(None).state, CheckState::Unknown);
}

#[test]
fn pressure_is_read_from_recorded_text() {
    let text = "some avg10=47.78 avg60=14.69 avg300=4.95 total=54292744\nfull avg10=0.00 avg60=0.00 avg300=0.00 total=0\n";
    let share = some_avg10(text).unwrap();
    assert!((share - 0.4778).abs() < 1e-12);
    assert_eq!(some_avg10("full avg10=1.00"), None);
    assert_eq!(
        pressure(&BTreeMap::from([("cpu", share)])).state,
        CheckState::Costs
    );
    assert_eq!(
        pressure(&BTreeMap::from([("cpu", 0.02), ("io", 0.9)])).state,
        CheckState::Ok
    );
    assert_eq!(
        pressure(&BTreeMap::from([("memory", 0.05)])).state,
        CheckState::Costs
    );
    assert_eq!(pressure(&BTreeMap::new()).state, CheckState::Unknown);
}

#[test]
fn mitigations_that_system_calls_pay_for_are_named() {
    let judged = |states: &[(&str, &str)]| {
        let mitigations = states.iter().map(|(k, v)| (k.to_string(), v.to_string()));
        mitigations_of(mitigations.collect())
    };
    fn mitigations_of(mitigations: BTreeMap<String, String>) -> Check {
        mitigations_check(&Facts {
            mitigations,
            ..facts()
        })
    }
    use super::mitigations as mitigations_check;
    // An AMD EPYC guest: only returns are dearer.
    let epyc = judged(&[
        ("spec_rstack_overflow", "Vulnerable: Safe RET, no microcode"),
        (
            "spectre_v1",
            "Mitigation: usercopy/swapgs barriers and __user pointer sanitization",
        ),
        (
            "spectre_v2",
            "Mitigation: Retpolines; STIBP: disabled; RSB filling; PBRSB-eIBRS: Not affected; BHI: Not affected",
        ),
    ]);
    assert_eq!(epyc.found, "spec_rstack_overflow: Safe RET");
    // A Skylake: the dearest.
    let skylake = judged(&[
        ("meltdown", "Mitigation: PTI"),
        ("mds", "Mitigation: Clear CPU buffers; SMT vulnerable"),
        ("retbleed", "Mitigation: IBRS"),
        (
            "spectre_v2",
            "Mitigation: IBRS; IBPB: conditional; STIBP: conditional; RSB filling",
        ),
    ]);
    assert_eq!(
        skylake.found,
        "meltdown: PTI, spectre_v2: IBRS, retbleed: IBRS, mds: Clear CPU buffers"
    );
    let costs = skylake.costs.unwrap();
    assert_eq!(costs.matches("indirect branches").count(), 1, "{costs}");
    // A recent Intel: nothing that a call pays for.
    let recent = judged(&[
        (
            "spectre_v2",
            "Mitigation: Enhanced / Automatic IBRS; IBPB: conditional; PBRSB-eIBRS: SW sequence; BHI: BHI_DIS_S",
        ),
        (
            "spec_store_bypass",
            "Mitigation: Speculative Store Bypass disabled via prctl",
        ),
    ]);
    assert_eq!(recent.state, CheckState::Ok, "{}", recent.found);
    let masked = Facts {
        tells_mitigations: false,
        ..facts()
    };
    assert_eq!(mitigations(&masked).state, CheckState::Unknown);
}

#[test]
fn dear_wake_ups_and_calls_cost() {
    let measured = |one, two| MeasuredCosts {
        wake_up_one_cpu_us: one,
        wake_up_two_cpus_us: two,
        ..MeasuredCosts::default()
    };
    let cheap = wake_up(&facts(), &measured(known(1.2), known(3.0)));
    assert_eq!(cheap.state, CheckState::Ok);
    assert_eq!(cheap.found, "1.2 µs on one CPU, 3.0 µs from CPU to CPU");
    let guest = Facts {
        hypervisor: Some(Hypervisor::Kvm),
        ..facts()
    };
    let dear = wake_up(&guest, &measured(known(2.5), known(22.0)));
    assert_eq!(dear.state, CheckState::Costs);
    assert!(dear.change.unwrap().contains("haltpoll"));
    let refused = MeasuredCosts {
        refused: vec!["CPU 0 refused".into()],
        ..MeasuredCosts::default()
    };
    assert_eq!(
        wake_up(&facts(), &refused).found,
        "not measured: CPU 0 refused"
    );
    let states = [60.0, 400.0, 2500.0].map(|ns| system_call(known(ns)).state);
    assert_eq!(
        states,
        [CheckState::Ok, CheckState::Costs, CheckState::Costs]
    );
    assert_eq!(system_call(None).state, CheckState::Unknown);
}

#[test]
fn near_and_far_are_told_apart() {
    let measured = |ns| MeasuredCosts {
        line_travel_ns: ns,
        ..MeasuredCosts::default()
    };
    assert_eq!(
        travel_time(&facts(), &measured(Some(30.0))).state,
        CheckState::Ok
    );
    assert_eq!(
        travel_time(&facts(), &measured(Some(110.0))).state,
        CheckState::Costs
    );
    assert_eq!(
        travel_time(&facts(), &measured(None)).state,
        CheckState::Unknown
    );
}

#[test]
fn steal_counts_when_it_is_a_percent() {
    assert_eq!(steal(Some(0.001), Some(0.0)).state, CheckState::Ok);
    assert_eq!(steal(Some(0.001), Some(0.2)).state, CheckState::Costs);
    assert_eq!(steal(Some(0.05), None).found, "5.0 % since boot");
    assert_eq!(steal(None, None).state, CheckState::Unknown);
}

#[test]
fn clocks_that_follow_the_load_cost() {
    let judged = |governor: Option<&str>, cpufreq| {
        governor_state(&Facts {
            governor: governor.map(str::to_owned),
            cpufreq,
            ..facts()
        })
    };
    fn governor_state(facts: &Facts) -> CheckState {
        governor(facts).state
    }
    assert_eq!(judged(Some("performance"), Presence::There), CheckState::Ok);
    assert_eq!(
        judged(Some("schedutil"), Presence::There),
        CheckState::Costs
    );
    assert_eq!(judged(None, Presence::Absent), CheckState::Unknown);
    assert_eq!(judged(None, Presence::Unseen), CheckState::Unknown);
}

#[test]
fn guests_are_told_from_machines_that_do_not_say() {
    assert_eq!(hypervisor(&facts()).state, CheckState::Ok);
    let guest = Facts {
        hypervisor: Some(Hypervisor::Other),
        ..facts()
    };
    assert_eq!(hypervisor(&guest).state, CheckState::Costs);
    let emulated = Facts {
        hypervisor: Some(Hypervisor::Emulator),
        ..facts()
    };
    let check = hypervisor(&emulated);
    assert_eq!(check.state, CheckState::Costs);
    assert!(check.found.contains("emulator") && !check.found.contains("KVM"));
    let masked = Facts {
        tells_hypervisor: false,
        ..facts()
    };
    assert_eq!(hypervisor(&masked).state, CheckState::Unknown);
}
