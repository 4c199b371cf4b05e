//! The rings and what each call does to them.

use serde::Serialize;
use serde::ser::Serializer;

use super::FAT;
use super::MOST_SLOTS;
use super::script::{Amount, Op, Step, Which};

/// A page, or what a fat slot refers to: eight pages in a row. Two slots with the same one share its memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Page(pub u32);

impl std::fmt::Display for Page {
    /// A, B, … Z, AA, AB, …
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let letter = (b'A' + (self.0 % 26) as u8) as char;
        if self.0 >= 26 {
            write!(f, "{}", Self(self.0 / 26 - 1))?;
        }
        write!(f, "{letter}")
    }
}

impl Serialize for Page {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

/// One entry of the ring.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Slot {
    /// What it refers to.
    #[cfg_attr(test, schemars(with = "String"))]
    pub page: Page,
    /// Where in the page the data begin, in bytes.
    pub offset: usize,
    /// Bytes.
    pub len: usize,
    /// Whether a later `write(2)` may append to the page (`PIPE_BUF_FLAG_CAN_MERGE`).
    pub can_merge: bool,
    /// Size of what `page` names, in bytes: more than a page for a fat slot.
    pub room: usize,
}

/// One pipe.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pipe {
    page_size: usize,
    slots: Vec<Option<Slot>>,
    head: u32,
    tail: u32,
}

impl Pipe {
    fn new(page_size: usize, slots: usize) -> Self {
        Self {
            page_size,
            slots: vec![None; slots.clamp(1, MOST_SLOTS).next_power_of_two()],
            head: 0,
            tail: 0,
        }
    }

    /// Slots in the ring, used and free.
    pub fn slots(&self) -> &[Option<Slot>] {
        &self.slots
    }

    /// Counter of the next slot to be filled. Its place is `head & (slots - 1)`.
    pub fn head(&self) -> u32 {
        self.head
    }

    /// Counter of the next slot to be read.
    pub fn tail(&self) -> u32 {
        self.tail
    }

    /// Slots in use.
    pub fn used(&self) -> usize {
        self.head.wrapping_sub(self.tail) as usize
    }

    /// Bytes that wait to be read, as `FIONREAD` counts them.
    pub fn bytes(&self) -> usize {
        self.in_order().map(|(_, slot)| slot.len).sum()
    }

    /// Capacity in bytes, as `F_GETPIPE_SZ` says it: slots × page size, whatever the slots hold.
    pub fn capacity(&self) -> usize {
        self.slots.len() * self.page_size
    }

    /// Whether nothing can be read: a reader would block.
    pub fn is_empty(&self) -> bool {
        self.head == self.tail
    }

    /// Whether no slot is free: a writer would block, unless its bytes fit into the last page.
    pub fn is_full(&self) -> bool {
        self.used() == self.slots.len()
    }

    /// Place in the array and slot of everything in use, from tail to head.
    pub fn in_order(&self) -> impl Iterator<Item = (usize, &Slot)> {
        (0..self.used() as u32).filter_map(|i| {
            let place = self.place(self.tail.wrapping_add(i));
            Some((place, self.slots[place].as_ref()?))
        })
    }

    /// Bytes that a `write(2)` could append to the last page.
    pub fn room_in_last_page(&self) -> usize {
        match self.in_order().last() {
            Some((_, slot)) if slot.can_merge => self.page_size - slot.offset - slot.len,
            _ => 0,
        }
    }

    /// Whether a `write(2)` could append to the page of the slot at this place: only to the last one.
    pub fn may_be_appended_to(&self, place: usize) -> bool {
        self.room_in_last_page() > 0 && place == self.place(self.head.wrapping_sub(1))
    }

    fn place(&self, counter: u32) -> usize {
        counter as usize & (self.slots.len() - 1)
    }

    /// Puts a slot in at the head; there must be room. Returns its place.
    fn push(&mut self, slot: Slot) -> usize {
        let place = self.place(self.head);
        self.slots[place] = Some(slot);
        self.head = self.head.wrapping_add(1);
        place
    }

    /// Takes the slot at the tail out.
    fn pop(&mut self) -> Option<Slot> {
        let place = self.place(self.tail);
        let slot = self.slots[place].take()?;
        self.tail = self.tail.wrapping_add(1);
        Some(slot)
    }

    fn at_tail(&mut self) -> Option<(usize, &mut Slot)> {
        let place = self.place(self.tail);
        Some((place, self.slots[place].as_mut()?))
    }

    /// As `pipe_set_size`: rounds up to a power of two of pages, and moves the slots to the front of a new array.
    fn resize(&mut self, bytes: usize) -> Result<(), Refusal> {
        if bytes > 1 << 31 {
            return Err(Refusal::Invalid);
        }
        let slots = bytes.max(self.page_size).next_power_of_two() / self.page_size;
        if slots < self.used() {
            return Err(Refusal::Busy);
        }
        let mut new = vec![None; slots];
        for (to, (_, slot)) in new.iter_mut().zip(self.in_order()) {
            *to = Some(*slot);
        }
        self.head = self.used() as u32;
        self.tail = 0;
        self.slots = new;
        Ok(())
    }
}

/// Why a call moved nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// `EAGAIN`: it would block.
    WouldBlock,
    /// `EBUSY`: more slots are in use than would be left.
    Busy,
    /// `EINVAL`: no capacity that a pipe can have.
    Invalid,
}

impl Refusal {
    /// Name of the error.
    pub fn errno(self) -> &'static str {
        match self {
            Self::WouldBlock => "EAGAIN",
            Self::Busy => "EBUSY",
            Self::Invalid => "EINVAL",
        }
    }
}

/// What became of a slot.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum What {
    /// A free slot was filled.
    Filled,
    /// Bytes were appended to the last page.
    Merged,
    /// It was read to its end, and is free.
    Emptied,
    /// Its beginning was read.
    Shortened,
    /// It went to the other pipe as it is.
    Moved,
    /// Its beginning went to the other pipe, which now refers to the same page.
    Split,
    /// The other pipe now refers to the same page, too.
    Shared,
}

/// A piece of what a call did.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Part {
    /// What became of the slot.
    pub what: What,
    /// Place of the slot in its array: of the new slot, where one was filled in the other pipe.
    pub place: usize,
    /// The page.
    #[cfg_attr(test, schemars(with = "String"))]
    pub page: Page,
    /// Where in the page the bytes concerned begin.
    pub offset: usize,
    /// How many there are.
    pub len: usize,
}

/// What a call returned.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Outcome {
    /// Bytes asked for.
    pub asked: usize,
    /// Bytes moved, which may be fewer; of `resize` the capacity granted.
    pub moved: usize,
    /// Why nothing was moved.
    pub refusal: Option<Refusal>,
    /// What was done, slot by slot.
    pub parts: Vec<Part>,
}

impl Outcome {
    fn of(asked: usize, parts: Vec<Part>) -> Self {
        let moved = parts.iter().map(|p| p.len).sum();
        let refusal = (moved == 0 && asked > 0).then_some(Refusal::WouldBlock);
        Self {
            asked,
            moved,
            refusal,
            parts,
        }
    }
}

/// Two pipes: most calls concern one, `splice` and `tee` go from one to the other.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pipes {
    page_size: usize,
    first: Pipe,
    second: Pipe,
    pages: u32,
}

impl Pipes {
    /// Two empty pipes with so many slots each, rounded up to a power of two.
    ///
    /// # Panics
    /// When `page_size` is not a power of two of at least 512 bytes.
    pub fn new(page_size: usize, slots: usize) -> Self {
        assert!(page_size.is_power_of_two() && page_size >= 512);
        let pipe = Pipe::new(page_size, slots);
        Self {
            page_size,
            first: pipe.clone(),
            second: pipe,
            pages: 0,
        }
    }

    /// One of the two.
    pub fn pipe(&self, which: Which) -> &Pipe {
        match which {
            Which::First => &self.first,
            Which::Second => &self.second,
        }
    }

    /// Bytes in a page.
    pub fn page_size(&self) -> usize {
        self.page_size
    }

    fn pipe_mut(&mut self, which: Which) -> &mut Pipe {
        match which {
            Which::First => &mut self.first,
            Which::Second => &mut self.second,
        }
    }

    /// Makes one call, as with `O_NONBLOCK`.
    pub fn call(&mut self, step: Step) -> Outcome {
        let on = step.on;
        match step.op {
            Op::Write(len) => self.write(on, len),
            Op::Read(len) => self.read(on, len),
            Op::Vmsplice { len, offset } => self.vmsplice(on, len, offset),
            Op::Splice(amount) => self.splice(on, self.bytes_of(on, amount)),
            Op::Tee(amount) => self.tee(on, self.bytes_of(on, amount)),
            Op::Fat(slots) => self.fat(on, slots),
            Op::Resize(amount) => self.resize(on, amount),
        }
    }

    /// Bytes that an amount stands for at the tail of a pipe. Slots that are not there count as whole pages.
    fn bytes_of(&self, on: Which, amount: Amount) -> usize {
        let slots = match amount {
            Amount::Bytes(bytes) => return bytes,
            Amount::Slots(slots) => slots,
        };
        let pipe = self.pipe(on);
        let there: usize = pipe.in_order().take(slots).map(|(_, s)| s.len).sum();
        there + slots.saturating_sub(pipe.used()) * self.page_size
    }

    fn fresh_page(&mut self) -> Page {
        self.pages += 1;
        Page(self.pages - 1)
    }

    /// Fills the slot at the head of a pipe.
    fn fill(&mut self, on: Which, page: Page, slot: Slot) -> Part {
        Part {
            what: What::Filled,
            place: self.pipe_mut(on).push(slot),
            page,
            offset: slot.offset,
            len: slot.len,
        }
    }

    /// First what does not fill a page goes into the last page, if all of that fits there and the page was filled by
    /// `write(2)`; the rest goes into pages of its own.
    fn write(&mut self, on: Which, len: usize) -> Outcome {
        let size = self.page_size;
        let mut left = len;
        let mut parts = Vec::new();
        let odd = len % size;
        let pipe = self.pipe_mut(on);
        if odd > 0 && odd <= pipe.room_in_last_page() {
            let place = pipe.place(pipe.head.wrapping_sub(1));
            if let Some(slot) = &mut pipe.slots[place] {
                parts.push(Part {
                    what: What::Merged,
                    place,
                    page: slot.page,
                    offset: slot.offset + slot.len,
                    len: odd,
                });
                slot.len += odd;
                left -= odd;
            }
        }
        while left > 0 && !self.pipe(on).is_full() {
            let page = self.fresh_page();
            let slot = Slot {
                page,
                offset: 0,
                len: left.min(size),
                can_merge: true,
                room: size,
            };
            left -= slot.len;
            parts.push(self.fill(on, page, slot));
        }
        Outcome::of(len, parts)
    }

    fn read(&mut self, on: Which, len: usize) -> Outcome {
        let pipe = self.pipe_mut(on);
        let mut left = len;
        let mut parts = Vec::new();
        while left > 0
            && let Some((place, slot)) = pipe.at_tail()
        {
            let taken = left.min(slot.len);
            let mut part = Part {
                what: What::Shortened,
                place,
                page: slot.page,
                offset: slot.offset,
                len: taken,
            };
            slot.offset += taken;
            slot.len -= taken;
            if slot.len == 0 {
                pipe.pop();
                part.what = What::Emptied;
            }
            parts.push(part);
            left -= taken;
        }
        Outcome::of(len, parts)
    }

    /// One slot per page of the caller's memory, which begins at `offset` in a page.
    fn vmsplice(&mut self, on: Which, len: usize, offset: usize) -> Outcome {
        let size = self.page_size;
        let mut left = len;
        let mut offset = offset % size;
        let mut parts = Vec::new();
        while left > 0 && !self.pipe(on).is_full() {
            let page = self.fresh_page();
            let slot = Slot {
                page,
                offset,
                len: left.min(size - offset),
                can_merge: false,
                room: size,
            };
            left -= slot.len;
            offset = 0;
            parts.push(self.fill(on, page, slot));
        }
        Outcome::of(len, parts)
    }

    fn fat(&mut self, on: Which, slots: usize) -> Outcome {
        let mut parts = Vec::new();
        while parts.len() < slots && !self.pipe(on).is_full() {
            let page = self.fresh_page();
            let slot = Slot {
                page,
                offset: 0,
                len: FAT,
                can_merge: false,
                room: FAT,
            };
            parts.push(self.fill(on, page, slot));
        }
        Outcome::of(slots.saturating_mul(FAT), parts)
    }

    /// A slot that fits is moved as it is. Of one that does not, both pipes then hold a part, and the page is shared.
    fn splice(&mut self, from: Which, len: usize) -> Outcome {
        let mut left = len;
        let mut parts = Vec::new();
        while left > 0 && !self.pipe(from.other()).is_full() {
            let Some((_, slot)) = self.pipe_mut(from).at_tail() else {
                break;
            };
            let mut taken = *slot;
            let what = if slot.len <= left {
                self.pipe_mut(from).pop();
                What::Moved
            } else {
                slot.offset += left;
                slot.len -= left;
                taken.len = left;
                taken.can_merge = false;
                What::Split
            };
            left -= taken.len;
            let part = self.fill(from.other(), taken.page, taken);
            parts.push(Part { what, ..part });
        }
        Outcome::of(len, parts)
    }

    fn tee(&mut self, from: Which, len: usize) -> Outcome {
        let mut left = len;
        let mut parts = Vec::new();
        let slots: Vec<Slot> = self.pipe(from).in_order().map(|(_, s)| *s).collect();
        for mut slot in slots {
            if left == 0 || self.pipe(from.other()).is_full() {
                break;
            }
            slot.len = slot.len.min(left);
            slot.can_merge = false;
            left -= slot.len;
            let part = self.fill(from.other(), slot.page, slot);
            let what = What::Shared;
            parts.push(Part { what, ..part });
        }
        Outcome::of(len, parts)
    }

    fn resize(&mut self, on: Which, amount: Amount) -> Outcome {
        let asked = match amount {
            Amount::Bytes(bytes) => bytes,
            Amount::Slots(slots) => slots.saturating_mul(self.page_size),
        };
        let refusal = self.pipe_mut(on).resize(asked).err();
        let moved = match refusal {
            None => self.pipe(on).capacity(),
            Some(_) => 0,
        };
        Outcome {
            asked,
            moved,
            refusal,
            parts: Vec::new(),
        }
    }
}
