//! Whether a document fits its schema. Used by the tests of this crate, and by those of the program.

use serde_json::Value;

/// Whether `value` fits `schema`, as far as these schemas go: references, types, properties, lists, choices, constants.
pub fn fits(value: &Value, schema: &Value, root: &Value) -> Result<(), String> {
    let here = |why: &str| Err(format!("{why}: {value:.80} against {schema:.120}"));
    if let Some(reference) = schema["$ref"].as_str() {
        let name = reference.strip_prefix("#/$defs/").expect("a name");
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
    let is = |name: &Value| match name.as_str().expect("a type") {
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
