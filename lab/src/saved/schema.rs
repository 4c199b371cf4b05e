//! The published schemas of saved runs: made from the types that read and write them, and checked here to be current.

use std::path::PathBuf;

use schemars::generate::SchemaSettings;
use schemars::{JsonSchema, Schema};
use serde_json::{Value, json};

use super::load::load;
use crate::bandwidth;
use crate::compare;
use crate::ladder::run;
use crate::profile;
use crate::sweep;

/// Set to write the schemas instead of checking them.
const WRITE: &str = "FULLBORE_WRITE_SCHEMAS";

fn folder() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../docs/schema")
}

/// Every published form: its name, and its schema.
fn published() -> [(&'static str, Schema); 5] {
    // What must be there to be read; what is written has more. So older runs stay valid.
    let read = SchemaSettings::draft2020_12;
    // Nothing reads comparisons.
    let written = || SchemaSettings::draft2020_12().for_serialize();
    fn of<T: JsonSchema>(settings: SchemaSettings) -> Schema {
        settings.into_generator().into_root_schema_for::<T>()
    }
    [
        (run::SCHEMA, of::<run::Run>(read())),
        (
            profile::profiled::SCHEMA,
            of::<profile::profiled::Profile>(read()),
        ),
        (sweep::SCHEMA, of::<sweep::Sweep>(read())),
        (
            bandwidth::result::SCHEMA,
            of::<bandwidth::result::BandwidthRun>(read()),
        ),
        (compare::SCHEMA, of::<compare::Comparison>(written())),
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

/// Whether `value` fits `schema`, as far as these schemas go: references, types, properties, lists, choices, constants.
fn fits(value: &Value, schema: &Value, root: &Value) -> Result<(), String> {
    let here = |why: &str| Err(format!("{why}: {value:.80} against {schema:.120}"));
    if let Some(reference) = schema["$ref"].as_str() {
        let name = reference.strip_prefix("#/$defs/").unwrap();
        fits(value, &root["$defs"][name], root)?;
    }
    for (word, least_one) in [("anyOf", true), ("oneOf", true), ("allOf", false)] {
        if let Some(choices) = schema[word].as_array() {
            let good = choices
                .iter()
                .filter(|c| fits(value, c, root).is_ok())
                .count();
            if (least_one && good == 0) || (!least_one && good < choices.len()) {
                return here(word);
            }
        }
    }
    if let Some(constant) = schema.get("const").filter(|c| *c != value) {
        return here(&format!("not {constant}"));
    }
    if schema["enum"]
        .as_array()
        .is_some_and(|e| !e.contains(value))
    {
        return here("not one of them");
    }
    let is = |name: &Value| match name.as_str().unwrap() {
        "null" => value.is_null(),
        "boolean" => value.is_boolean(),
        "integer" => value.is_u64() || value.is_i64(),
        "number" => value.is_number(),
        "string" => value.is_string(),
        "array" => value.is_array(),
        "object" => value.is_object(),
        other => panic!("type {other}"),
    };
    let typed = match &schema["type"] {
        Value::Null => true,
        Value::Array(names) => names.iter().any(is),
        name => is(name),
    };
    if !typed {
        return here("wrong type");
    }
    let required = schema["required"].as_array().into_iter().flatten();
    for name in required.filter_map(Value::as_str) {
        if value.is_object() && value.get(name).is_none() {
            return here(&format!("{name} is missing"));
        }
    }
    for (name, schema) in schema["properties"].as_object().into_iter().flatten() {
        value.get(name).map_or(Ok(()), |v| fits(v, schema, root))?;
    }
    for item in value.as_array().into_iter().flatten() {
        if let Some(schema) = schema.get("items").filter(|s| s.is_object()) {
            fits(item, schema, root)?;
        }
    }
    Ok(())
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
