//! Names for addresses: of the kernel by /proc/kallsyms, of a program by its own symbols.

use std::collections::HashMap;
use std::path::{Path, PathBuf};

use blazesym::MaybeDefault;
use blazesym::symbolize::source::{Elf, Kernel, Source};
use blazesym::symbolize::{Input, Symbolizer};

use super::cause::KERNEL;
use super::recorder::RecordedSample;

/// A part of a program's address space that holds code.
#[derive(Clone, Debug, PartialEq, Eq)]
struct CodeMapping {
    start: u64,
    end: u64,
    /// Where in the file it begins.
    offset: u64,
    /// The file, or a name in brackets such as `[vdso]`.
    path: PathBuf,
}

/// The code that a process has mapped, read while it lives.
#[derive(Clone, Debug, Default)]
pub struct Maps(Vec<CodeMapping>);

impl Maps {
    /// Those of a process; empty where /proc does not show them.
    pub fn of(pid: u32) -> Self {
        let text = std::fs::read_to_string(format!("/proc/{pid}/maps")).unwrap_or_default();
        Self::parse(&text)
    }

    fn parse(text: &str) -> Self {
        let mapping = |line: &str| {
            let mut fields = line.split_ascii_whitespace();
            let (start, end) = fields.next()?.split_once('-')?;
            let rights = fields.next()?;
            let offset = fields.next()?;
            let path = fields.nth(2).unwrap_or("[anonymous]");
            let number = |hex| u64::from_str_radix(hex, 16).ok();
            rights.contains('x').then_some(CodeMapping {
                start: number(start)?,
                end: number(end)?,
                offset: number(offset)?,
                path: path.into(),
            })
        };
        Self(text.lines().filter_map(mapping).collect())
    }

    fn find(&self, address: u64) -> Option<&CodeMapping> {
        self.0.iter().find(|m| (m.start..m.end).contains(&address))
    }
}

/// Names of functions, each looked up once.
pub struct Symbols {
    symbolizer: Symbolizer,
    kernel: Source<'static>,
    of_kernel: HashMap<u64, String>,
    of_files: HashMap<(PathBuf, u64), String>,
}

impl Default for Symbols {
    fn default() -> Self {
        let kernel = Kernel {
            // The image on disk need not be the running one, and is large.
            vmlinux: MaybeDefault::None,
            ..Kernel::default()
        };
        Self {
            symbolizer: Symbolizer::builder()
                .enable_code_info(false)
                .enable_inlined_fns(false)
                .build(),
            kernel: kernel.into(),
            of_kernel: HashMap::new(),
            of_files: HashMap::new(),
        }
    }
}

impl Symbols {
    /// A sample as a folded stack: outermost function first, those of the kernel marked.
    pub fn fold(&mut self, sample: &RecordedSample, maps: &Maps) -> String {
        let mut stack = String::new();
        // Without frame pointers a chain goes astray: what lies in no code is no caller.
        for &address in sample.user.iter().rev() {
            if let Some(mapping) = maps.find(address) {
                push(&mut stack, &self.of_program(address, mapping), "");
            }
        }
        if stack.is_empty() && sample.kernel.is_empty() {
            push(&mut stack, "[unknown]", "");
        }
        for &address in sample.kernel.iter().rev() {
            push(&mut stack, &self.of_kernel(address), KERNEL);
        }
        stack
    }

    fn of_kernel(&mut self, address: u64) -> String {
        if let Some(name) = self.of_kernel.get(&address) {
            return name.clone();
        }
        let found = self
            .symbolizer
            .symbolize_single(&self.kernel, Input::AbsAddr(address));
        let name = found
            .ok()
            .and_then(|s| s.as_sym().map(|s| s.name.to_string()))
            .unwrap_or_else(|| "[unknown]".to_owned());
        self.of_kernel.insert(address, name.clone());
        name
    }

    fn of_program(&mut self, address: u64, mapping: &CodeMapping) -> String {
        let in_file = address - mapping.start + mapping.offset;
        let key = (mapping.path.clone(), in_file);
        if let Some(name) = self.of_files.get(&key) {
            return name.clone();
        }
        let source = Elf::new(readable(&mapping.path)).into();
        let found = self
            .symbolizer
            .symbolize_single(&source, Input::FileOffset(in_file));
        let file = mapping.path.file_name().unwrap_or(mapping.path.as_os_str());
        let name = found
            .ok()
            .and_then(|s| s.as_sym().map(|s| s.name.to_string()))
            .unwrap_or_else(|| format!("[{}]", file.to_string_lossy().trim_matches(['[', ']'])));
        self.of_files.insert(key, name.clone());
        name
    }
}

/// Both sides are this very program, whose file may have been replaced since it was started.
fn readable(path: &Path) -> PathBuf {
    match std::env::current_exe() {
        Ok(exe) if exe == path => "/proc/self/exe".into(),
        _ => path.to_owned(),
    }
}

/// `;` separates functions, and a space the count.
fn push(stack: &mut String, name: &str, mark: &str) {
    if !stack.is_empty() {
        stack.push(';');
    }
    stack.extend(name.chars().map(|c| match c {
        ';' => ':',
        c if c.is_whitespace() || c.is_control() => '_',
        c => c,
    }));
    stack.push_str(mark);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn code_is_found_in_maps() {
        let maps = Maps::parse(
            "55e0-55f0 r--p 00000000 fd:00 12 /usr/bin/fullbore\n\
             55f0-5600 r-xp 00000010 fd:00 12 /usr/bin/fullbore\n\
             7000-7010 r-xp 00000000 00:00 0 [vdso]\n\
             8000-8010 r-xp 00000000 00:00 0 \n",
        );
        assert_eq!(maps.0.len(), 3);
        assert_eq!(
            maps.find(0x55f8).unwrap().path,
            Path::new("/usr/bin/fullbore")
        );
        assert_eq!(maps.find(0x55e8), None);
        assert_eq!(maps.find(0x7000).unwrap().path, Path::new("[vdso]"));
        assert_eq!(maps.find(0x8000).unwrap().path, Path::new("[anonymous]"));
    }

    #[test]
    fn own_function_is_named_and_strays_are_left_out() {
        #[inline(never)]
        fn here_we_are() -> u64 {
            std::hint::black_box(here_we_are as fn() -> u64 as usize as u64)
        }
        let maps = Maps::of(std::process::id());
        let sample = RecordedSample {
            time_ns: 0,
            period: 0,
            kernel: Vec::new(),
            user: vec![here_we_are(), 0x10],
        };
        let stack = Symbols::default().fold(&sample, &maps);
        assert!(
            stack.contains("here_we_are") && !stack.contains(';'),
            "{stack}"
        );
    }

    #[test]
    fn names_never_break_the_form() {
        let mut stack = String::new();
        push(&mut stack, "<A as B>::f; g", "");
        push(&mut stack, "h", KERNEL);
        assert_eq!(stack, "<A_as_B>::f:_g;h_[k]");
    }
}
