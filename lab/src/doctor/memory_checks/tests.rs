use super::*;
use crate::doctor::CheckState;

const BUDDY: &str = "Node 0, zone      DMA      0      0      0      0      0      0      0      0      1      1      3 \n\
    Node 0, zone   Normal  12748   4804   2092    424    526    397    267    123     21      7     32 \n";

fn facts() -> Facts {
    Facts {
        thp: Presence::There,
        enabled: Some("madvise".into()),
        defrag: Some("madvise".into()),
        huge_size: Some(2 << 20),
        page_size: 4096,
        huge_page: Ok(()),
        is_off_for_process: false,
        free: free_blocks(BUDDY),
        hugetlb: None,
        cgroup: None,
    }
}

#[test]
fn free_blocks_of_all_zones_are_added_up() {
    let free = free_blocks(BUDDY).unwrap();
    assert_eq!(free.len(), 11);
    assert_eq!((free[0], free[9], free[10]), (12748, 8, 35));
    // A block of 4 MiB has room for two of 2 MiB.
    assert_eq!(blocks_of(&free, 2 << 20, 4096), 8 + 2 * 35);
    assert_eq!(free_blocks(""), None);
    assert_eq!(free_blocks("Node 0, zone Normal 1 x"), None);
    assert_eq!(blocks_of(&[5], 2 << 20, 4096), 0);
}

#[test]
fn huge_pages_are_judged_by_trial_before_setting() {
    assert_eq!(huge_pages(&facts()).state, CheckState::Ok);
    let refused = || Err("0B of 2MiB are".to_owned());
    let judged = |enabled: Option<&str>, thp, huge_page, off| {
        huge_pages(&Facts {
            enabled: enabled.map(str::to_owned),
            thp,
            huge_page,
            is_off_for_process: off,
            ..facts()
        })
    };
    let there = Presence::There;
    assert_eq!(
        judged(Some("never"), there, refused(), false).state,
        CheckState::Missing
    );
    assert_eq!(
        judged(Some("always"), there, refused(), false).state,
        CheckState::Costs
    );
    assert_eq!(
        judged(Some("always"), there, refused(), true).state,
        CheckState::Missing
    );
    assert_eq!(
        judged(None, Presence::Absent, refused(), false).state,
        CheckState::Missing
    );
    assert_eq!(
        judged(None, Presence::Unseen, refused(), false).state,
        CheckState::Unknown
    );
}

#[test]
fn fragmented_memory_and_lazy_defrag_cost() {
    assert_eq!(free_memory(&facts()).state, CheckState::Ok);
    let fragmented = Facts {
        free: Some(vec![100_000, 5000]),
        ..facts()
    };
    assert_eq!(free_memory(&fragmented).state, CheckState::Costs);
    let unknown = Facts {
        free: None,
        ..facts()
    };
    assert_eq!(free_memory(&unknown).state, CheckState::Unknown);
    for (word, state) in [
        ("never", CheckState::Costs),
        ("defer", CheckState::Costs),
        ("always", CheckState::Ok),
    ] {
        let facts = Facts {
            defrag: Some(word.into()),
            ..facts()
        };
        assert_eq!(defrag(&facts).state, state, "{word}");
    }
}

#[test]
fn reserved_pages_are_read_from_recorded_text() {
    let meminfo = |total, free| {
        format!(
            "MemTotal: 8148404 kB\nHugePages_Total: {total}\nHugePages_Free: {free}\nHugepagesize: 2048 kB\n"
        )
    };
    let judged = |text: &str, overcommit| hugetlb(hugetlb_pages(text, overcommit));
    assert_eq!(judged(&meminfo(0, 0), 0).state, CheckState::Missing);
    assert_eq!(judged(&meminfo(4, 0), 0).found, "all 4 in use");
    assert_eq!(judged(&meminfo(4, 3), 0).found, "3 of 4 of 2MiB free");
    assert_eq!(judged(&meminfo(0, 0), 2).state, CheckState::Ok);
    assert_eq!(judged("MemTotal: 1 kB\n", 0).found, "this kernel has none");
    assert_eq!(judged("", 0).state, CheckState::Unknown);
}

#[test]
fn tight_memory_costs() {
    let limit = |most, used| Some(Some(Limit { most, used }));
    assert_eq!(
        memory_cgroup(limit(64 << 20, Some(1 << 20))).state,
        CheckState::Costs
    );
    assert_eq!(memory_cgroup(limit(1 << 30, None)).state, CheckState::Ok);
    assert_eq!(memory_cgroup(Some(None)).state, CheckState::Ok);
    assert_eq!(memory_cgroup(None).state, CheckState::Unknown);
}
