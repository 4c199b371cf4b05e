//! What this machine is a guest of, if it is one: a hypervisor, or an emulator.

use serde::{Deserialize, Serialize};

use super::read;
use super::value;
use crate::sys::cpuid;

/// A kind of hypervisor.
#[derive(Serialize, Deserialize, Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "lowercase")]
pub enum Hypervisor {
    /// KVM, with or without QEMU.
    Kvm,
    /// Xen.
    Xen,
    /// VMware.
    Vmware,
    /// Microsoft Hyper-V.
    HyperV,
    /// VirtualBox.
    VirtualBox,
    /// None: a program, such as QEMU without KVM, carries out every instruction.
    Emulator,
    /// The processor says that there is one; nothing says which.
    Other,
}

/// What there is to tell it by; empty where it cannot be read.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Signs<'a> {
    /// What the hypervisor calls itself, in answer to the instruction CPUID.
    id: &'a str,
    cpuinfo: &'a str,
    /// `/sys/hypervisor/type`.
    kind: &'a str,
    /// Vendor and product by the firmware.
    dmi: &'a str,
}

/// Looks at this machine.
pub(super) fn detect(cpuinfo: &str) -> Option<Hypervisor> {
    let dmi = ["sys_vendor", "product_name"].map(|name| read(&format!("/sys/class/dmi/id/{name}")));
    of(Signs {
        id: &id(cpuid),
        cpuinfo,
        kind: &read("/sys/hypervisor/type").unwrap_or_default(),
        dmi: &dmi.into_iter().flatten().collect::<Vec<_>>().join(" "),
    })
}

/// What a hypervisor calls itself: 12 characters in three registers. `cpuid` gives EAX to EDX for a leaf.
fn id(cpuid: impl Fn(u32) -> Option<[u32; 4]>) -> String {
    let name = |leaf| {
        let [_, b, c, d] = cpuid(leaf)?;
        let bytes = [b, c, d].map(u32::to_le_bytes).concat();
        let text = String::from_utf8_lossy(&bytes);
        Some(text.trim_matches('\0').to_owned())
    };
    // Without a hypervisor the leaves below are another's.
    const HYPERVISOR: u32 = 1 << 31;
    if cpuid(1).is_none_or(|[_, _, c, _]| c & HYPERVISOR == 0) {
        return String::new();
    }
    let (first, second) = (name(0x4000_0000), name(0x4000_0100));
    match (first.unwrap_or_default(), second.unwrap_or_default()) {
        // Guests that know only Hyper-V are told of it first, and of the real one after it.
        (first, second) if first == "Microsoft Hv" && by_id(&second).is_some() => second,
        (first, _) => first,
    }
}

fn by_id(id: &str) -> Option<Hypervisor> {
    Some(match id {
        "KVMKVMKVM" | "Linux KVM Hv" => Hypervisor::Kvm,
        "XenVMMXenVMM" => Hypervisor::Xen,
        "VMwareVMware" => Hypervisor::Vmware,
        "Microsoft Hv" => Hypervisor::HyperV,
        "VBoxVBoxVBox" => Hypervisor::VirtualBox,
        "TCGTCGTCGTCG" => Hypervisor::Emulator,
        _ => return None,
    })
}

/// Only the kind: product names may say more about their owner than they should.
fn of(signs: Signs<'_>) -> Option<Hypervisor> {
    if signs.kind == "xen" {
        return Some(Hypervisor::Xen);
    }
    if let Some(known) = by_id(signs.id) {
        return Some(known);
    }
    if is_of_an_emulator(signs.cpuinfo) {
        return Some(Hypervisor::Emulator);
    }
    let named = [
        ("KVM", Hypervisor::Kvm),
        // On ARM the product says which of both it is; on x86 only CPUID does.
        ("QEMU Virtual Machine", Hypervisor::Emulator),
        ("QEMU", Hypervisor::Other),
        ("VMware", Hypervisor::Vmware),
        ("VirtualBox", Hypervisor::VirtualBox),
        ("Microsoft Corporation Virtual Machine", Hypervisor::HyperV),
        ("HVM domU", Hypervisor::Xen),
    ]
    .iter()
    .find_map(|(mark, kind)| signs.dmi.contains(mark).then_some(*kind));
    let flagged = value(signs.cpuinfo, "flags")
        .is_some_and(|flags| flags.split_whitespace().any(|flag| flag == "hypervisor"));
    named.or((flagged || !signs.id.is_empty()).then_some(Hypervisor::Other))
}

/// Whether it is a processor that no manufacturer made. KVM can show the second, too, but says who it is.
fn is_of_an_emulator(cpuinfo: &str) -> bool {
    let model = value(cpuinfo, "model name").unwrap_or_default();
    // On ARM: the implementer that is kept for software, and the letter Q.
    let arm = ["CPU implementer", "CPU part"].map(|key| value(cpuinfo, key));
    model.starts_with("QEMU TCG CPU")
        || model.starts_with("QEMU Virtual CPU")
        || arm == [Some("0x00"), Some("0x051")]
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const GUEST: &str = "model name\t: AMD EPYC\nflags\t\t: fpu vme x2apic hypervisor lahf_lm\n";
    const BARE: &str = "model name\t: 12th Gen Intel(R) Core(TM) i7-12700K\n\
        flags\t\t: fpu vme vmx\nvmx flags\t: vnmi hypervisor\n";
    const ARM: &str =
        "Features\t: fp asimd evtstrm aes\nCPU implementer\t: 0x41\nCPU part\t: 0xd0c\n";
    const NO_SIGNS: Signs<'static> = Signs {
        id: "",
        cpuinfo: "",
        kind: "",
        dmi: "",
    };

    fn x86(id: &str, cpuinfo: &str, dmi: &str) -> Option<Hypervisor> {
        of(Signs {
            id,
            cpuinfo,
            dmi,
            ..NO_SIGNS
        })
    }

    #[test]
    fn each_hypervisor_is_known_by_what_it_calls_itself() {
        for (id, kind) in [
            ("KVMKVMKVM", Hypervisor::Kvm),
            ("Linux KVM Hv", Hypervisor::Kvm),
            ("XenVMMXenVMM", Hypervisor::Xen),
            ("VMwareVMware", Hypervisor::Vmware),
            ("Microsoft Hv", Hypervisor::HyperV),
            ("VBoxVBoxVBox", Hypervisor::VirtualBox),
            ("TCGTCGTCGTCG", Hypervisor::Emulator),
            ("bhyve bhyve ", Hypervisor::Other),
        ] {
            assert_eq!(x86(id, GUEST, ""), Some(kind), "{id}");
        }
    }

    #[test]
    fn an_emulator_is_not_taken_for_kvm() {
        let pc = "QEMU Standard PC (Q35 + ICH9, 2009)";
        assert_eq!(x86("TCGTCGTCGTCG", GUEST, pc), Some(Hypervisor::Emulator));
        assert_eq!(x86("KVMKVMKVM", GUEST, pc), Some(Hypervisor::Kvm));
        // Without an answer to CPUID.
        assert_eq!(x86("", GUEST, pc), Some(Hypervisor::Other));
        for model in ["QEMU Virtual CPU version 2.5+", "QEMU TCG CPU version 2.5+"] {
            let cpuinfo = format!("model name\t: {model}\nflags\t\t: fpu hypervisor\n");
            assert_eq!(x86("", &cpuinfo, pc), Some(Hypervisor::Emulator));
            assert_eq!(x86("KVMKVMKVM", &cpuinfo, pc), Some(Hypervisor::Kvm));
        }
    }

    #[test]
    fn on_arm_the_product_or_the_processor_tells_an_emulator_from_kvm() {
        let emulated = "CPU implementer\t: 0x00\nCPU part\t: 0x051\n";
        for (cpuinfo, dmi, kind) in [
            (ARM, "QEMU KVM Virtual Machine", Some(Hypervisor::Kvm)),
            (ARM, "QEMU QEMU Virtual Machine", Some(Hypervisor::Emulator)),
            (emulated, "", Some(Hypervisor::Emulator)),
            (ARM, "", None),
        ] {
            assert_eq!(x86("", cpuinfo, dmi), kind, "{cpuinfo} {dmi}");
        }
    }

    #[test]
    fn hypervisor_is_told_by_kind_only() {
        assert_eq!(x86("", GUEST, ""), Some(Hypervisor::Other));
        assert_eq!(
            x86("", GUEST, "Microsoft Corporation Virtual Machine"),
            Some(Hypervisor::HyperV)
        );
        let xen = Signs {
            kind: "xen",
            cpuinfo: GUEST,
            dmi: "Xen HVM domU",
            ..NO_SIGNS
        };
        assert_eq!(of(xen), Some(Hypervisor::Xen));
        assert_eq!(x86("", BARE, "ASUS System Product Name"), None);
        assert_eq!(of(NO_SIGNS), None);
    }

    fn registers(name: &str) -> [u32; 4] {
        let mut bytes = [0; 12];
        bytes[..name.len()].copy_from_slice(name.as_bytes());
        let at = |i| u32::from_le_bytes([bytes[i], bytes[i + 1], bytes[i + 2], bytes[i + 3]]);
        [0x4000_0001, at(0), at(4), at(8)]
    }

    #[test]
    fn name_is_read_from_registers_and_only_where_a_hypervisor_answers() {
        let machine = |flag: u32, first: &'static str, second: &'static str| {
            id(move |leaf| {
                Some(match leaf {
                    1 => [0, 0, flag, 0],
                    0x4000_0000 => registers(first),
                    _ => registers(second),
                })
            })
        };
        let guest = 1 << 31;
        assert_eq!(machine(guest, "KVMKVMKVM", ""), "KVMKVMKVM");
        assert_eq!(machine(guest, "TCGTCGTCGTCG", ""), "TCGTCGTCGTCG");
        assert_eq!(machine(guest, "Microsoft Hv", ""), "Microsoft Hv");
        assert_eq!(machine(guest, "Microsoft Hv", "KVMKVMKVM"), "KVMKVMKVM");
        assert_eq!(machine(0, "KVMKVMKVM", ""), "");
        assert_eq!(id(|_| None), "");
    }

    proptest! {
        #[test]
        fn any_signs_are_judged_without_panic(text in "[a-z0-9:KVMQEU \n\t]{0,80}") {
            let _ = of(Signs { id: &text, cpuinfo: &text, kind: &text, dmi: &text });
        }
    }
}
