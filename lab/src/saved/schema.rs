//! The published schemas of all documents: made from the types that read and write them, and checked here to be current.

use std::path::PathBuf;

use schemars::generate::SchemaSettings;
use schemars::{JsonSchema, Schema};
use serde_json::{Value, json};

use super::fits::fits;
use super::list;
use super::load::load;
use crate::ladder::run;
use crate::walk::walk_document as walk;
use crate::worker::read_result;
use crate::{bandwidth, compare, doctor, gup, profile, ring, sweep};

/// Set to write the schemas instead of checking them.
const WRITE: &str = "FULLBORE_WRITE_SCHEMAS";

fn folder() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../docs/schema")
}

/// Every published form: its name, and its schema.
fn published() -> [(&'static str, Schema); 12] {
    // What must be there to be read; what is written has more. So older runs stay valid.
    fn read<T: JsonSchema>() -> Schema {
        let settings = SchemaSettings::draft2020_12();
        settings.into_generator().into_root_schema_for::<T>()
    }
    // Of what nothing reads again.
    fn written<T: JsonSchema>() -> Schema {
        let settings = SchemaSettings::draft2020_12().for_serialize();
        settings.into_generator().into_root_schema_for::<T>()
    }
    [
        (run::SCHEMA, read::<run::Run>()),
        (
            profile::profiled::SCHEMA,
            read::<profile::profiled::Profile>(),
        ),
        (sweep::SCHEMA, read::<sweep::Sweep>()),
        (
            bandwidth::result::SCHEMA,
            read::<bandwidth::result::BandwidthRun>(),
        ),
        (compare::SCHEMA, written::<compare::Comparison>()),
        (list::SCHEMA, written::<list::RunList>()),
        (read_result::SCHEMA, written::<read_result::ReadResult>()),
        (gup::SCHEMA, written::<gup::Gup>()),
        (doctor::SCHEMA, written::<doctor::DoctorReport>()),
        (
            ring::ring_document::SCHEMA,
            written::<ring::ring_document::RingDocument>(),
        ),
        (walk::SCHEMA, written::<walk::WalkDocument>()),
        (walk::PAGES_SCHEMA, written::<walk::PagesDocument>()),
    ]
}

fn file_of(name: &str) -> PathBuf {
    folder().join(format!("{}.json", name.replace('/', ".")))
}

/// The schema as it is published: only its own name will do.
fn text_of(name: &str, schema: &Schema) -> String {
    let mut value = schema.clone().to_value();
    value["properties"]["schema"] =
        json!({"description": "Name and version of this form.", "const": name});
    value["title"] = name.into();
    serde_json::to_string_pretty(&value).unwrap() + "\n"
}

#[test]
fn published_schemas_are_those_of_the_code() {
    for (name, schema) in published() {
        let (file, text) = (file_of(name), text_of(name, &schema));
        if std::env::var_os(WRITE).is_some() {
            std::fs::write(&file, text).unwrap();
        } else {
            let there = std::fs::read_to_string(&file).unwrap_or_default();
            assert!(
                there == text,
                "{} is not current: check that older runs stay readable, then run the tests once with {WRITE}=1",
                file.display()
            );
        }
    }
}

fn schema_of(name: &str) -> Value {
    serde_json::from_str(&std::fs::read_to_string(file_of(name)).unwrap()).unwrap()
}

#[test]
fn saved_run_fits_the_published_schema_and_a_damaged_one_does_not() {
    let text = include_str!("../../tests/data/ladder.json");
    let mut run: Value = serde_json::from_str(text).unwrap();
    let (first, newest) = (schema_of("fullbore.ladder/1"), schema_of(run::SCHEMA));
    fits(&run, &first, &first).unwrap();
    let why = fits(&run, &newest, &newest).unwrap_err();
    assert!(why.contains(&format!("not \"{}\"", run::SCHEMA)), "{why}");
    // What is made of it today fits the newest form.
    let super::load::Saved::Ladder(again) = load(text).unwrap() else {
        panic!("not a ladder");
    };
    fits(&serde_json::to_value(again).unwrap(), &newest, &newest).unwrap();
    run["rungs"][3]["samples"][0]["state"] = "nearby".into();
    assert!(fits(&run, &first, &first).is_err());
}
