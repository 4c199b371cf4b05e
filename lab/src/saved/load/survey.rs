//! A first look at a file that says it is a saved run: what it calls itself, whether it is one at all by its size, and whether
//! its numbers can have been measured. It keeps none of it, whatever there is.

use std::fmt::{self, Write};

use serde::de::{DeserializeSeed, Deserializer, Error, MapAccess, SeqAccess, Visitor};

use super::Bad;
use crate::show::escape::shown;

/// Beyond this a number is no measurement, whatever its unit.
const LARGEST: f64 = 1e15;
/// Values in a file: a ladder of a thousand rounds has 1.7 million.
const VALUES: usize = 2_500_000;
/// Values beside results: the machine has some for each CPU.
const VALUES_BESIDE: usize = 100_000;
/// Texts among the values; and bytes of each.
const TEXTS: usize = 600_000;
const TEXT: usize = 1 << 20;

/// The members that hold results, of every kind of run, and how many of them at most: pages and tables are made of each.
const RESULTS: [(&str, usize); 4] = [
    ("rungs", 300),
    ("cells", 2500),
    ("columns", 1000),
    ("latencies", 1000),
];

/// What was found.
#[derive(Default)]
pub(super) struct Survey {
    /// What the document calls itself.
    pub(super) schema: Option<String>,
    /// The first number that cannot be one.
    pub(super) bad_number: Option<Bad>,
    /// It is larger than any run; nothing was looked at behind that.
    pub(super) too_large: bool,
    /// Where the walk is: `rungs[2].id`.
    path: String,
    values: usize,
    texts: usize,
    /// Those beside results.
    beside: usize,
    /// How many results there may be in the list of them that the walk is in, if it is.
    results: Option<usize>,
}

/// Looks through a whole text. An error of the second is also that it is too large.
pub(super) fn survey(text: &[u8]) -> (Survey, serde_json::Result<()>) {
    let mut survey = Survey::default();
    let mut json = serde_json::Deserializer::from_slice(text);
    let walk = Walk {
        survey: &mut survey,
        depth: 0,
        in_rate: false,
    };
    let walked = walk.deserialize(&mut json).and_then(|()| json.end());
    (survey, walked)
}

/// Walks through one value.
struct Walk<'s> {
    survey: &'s mut Survey,
    depth: usize,
    /// Whether it lies in something that is called a rate.
    in_rate: bool,
}

impl Walk<'_> {
    fn inner(&mut self, in_rate: bool) -> Walk<'_> {
        Walk {
            survey: self.survey,
            depth: self.depth + 1,
            in_rate,
        }
    }

    fn require<E: Error>(&mut self, fits: bool) -> Result<(), E> {
        self.survey.too_large |= !fits;
        if fits {
            Ok(())
        } else {
            Err(E::custom("it is larger than any saved run"))
        }
    }

    /// One value more.
    fn count<E: Error>(&mut self) -> Result<(), E> {
        let survey = &mut self.survey;
        survey.values += 1;
        survey.beside += usize::from(survey.results.is_none());
        let fits = survey.values <= VALUES && survey.beside <= VALUES_BESIDE;
        self.require(fits)
    }

    /// A number must be something that can have been measured. Whole numbers other than rates are left to the types of
    /// their fields: a seed may be anything.
    fn number<E: Error>(&mut self, x: f64, n: impl fmt::Display) -> Result<(), E> {
        let path = &self.survey.path;
        let why = if x.abs() > LARGEST {
            format!("{} is {n}, which nothing measures", shown(path))
        } else if self.in_rate && x < 0.0 {
            format!("{} is {n}, and no rate is negative", shown(path))
        } else {
            return self.count();
        };
        let bad = Bad(why, "it was damaged or made up: use another run");
        self.survey.bad_number.get_or_insert(bad);
        self.count()
    }
}

impl<'de> DeserializeSeed<'de> for Walk<'_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, json: D) -> Result<(), D::Error> {
        json.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Walk<'_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("JSON")
    }

    fn visit_unit<E: Error>(mut self) -> Result<(), E> {
        self.count()
    }

    fn visit_bool<E: Error>(mut self, _: bool) -> Result<(), E> {
        self.count()
    }

    fn visit_i64<E: Error>(mut self, n: i64) -> Result<(), E> {
        if self.in_rate {
            return self.number(n as f64, n);
        }
        self.count()
    }

    fn visit_u64<E: Error>(mut self, n: u64) -> Result<(), E> {
        if self.in_rate {
            return self.number(n as f64, n);
        }
        self.count()
    }

    fn visit_f64<E: Error>(mut self, n: f64) -> Result<(), E> {
        let shown = serde_json::Number::from_f64(n).map(|n| n.to_string());
        self.number(n, shown.unwrap_or_default())
    }

    fn visit_str<E: Error>(mut self, text: &str) -> Result<(), E> {
        self.survey.texts += 1;
        let fits = self.survey.texts <= TEXTS && text.len() <= TEXT;
        self.require(fits)?;
        if self.depth == 1 && self.survey.path == "schema" {
            self.survey.schema = Some(text.to_owned());
        }
        self.count()
    }

    fn visit_seq<A: SeqAccess<'de>>(mut self, mut items: A) -> Result<(), A::Error> {
        let (end, in_rate) = (self.survey.path.len(), self.in_rate);
        let mut n = 0;
        loop {
            let _ = write!(self.survey.path, "[{n}]");
            if items.next_element_seed(self.inner(in_rate))?.is_none() {
                break;
            }
            self.survey.path.truncate(end);
            n += 1;
            let most = self.survey.results.filter(|_| self.depth == 1);
            self.require(most.is_none_or(|most| n <= most))?;
        }
        self.survey.path.truncate(end);
        self.count()
    }

    fn visit_map<A: MapAccess<'de>>(mut self, mut members: A) -> Result<(), A::Error> {
        let end = self.survey.path.len();
        while let Some(name) = members.next_key::<String>()? {
            self.require(name.len() <= TEXT)?;
            if self.depth == 0 {
                let list = RESULTS.iter().find(|(list, _)| *list == name);
                self.survey.results = list.map(|(_, most)| *most);
            }
            let dot = if end == 0 { "" } else { "." };
            let _ = write!(self.survey.path, "{dot}{name}");
            let in_rate = self.in_rate || name == "gib_per_s" || name == "mb_per_s";
            members.next_value_seed(self.inner(in_rate))?;
            self.survey.path.truncate(end);
        }
        self.count()
    }
}
