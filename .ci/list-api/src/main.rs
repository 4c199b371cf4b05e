//! Prints every public item of a crate, one a line, from rustdoc's JSON:
//!
//! ```text
//! list-api CRATE.json [OTHER.json...]
//! ```
//!
//! Where the crate shows items of others as its own (`pub use other::Item`), those are listed as well, from their JSON.
//! Exits with 3 where the JSON has another format than the one that is read here, which changes with the compiler.

use std::collections::BTreeSet;
use std::error::Error;

use public_api::{Builder, PublicItem};

/// Automatic implementations that a change of a private field takes away, and that somebody would miss.
const AUTOMATIC: [&str; 2] = ["Send", "Sync"];

fn main() -> Result<(), Box<dyn Error>> {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let (own, others) = args.split_first().ok_or("which JSON?")?;
    let format = read(own)?["format_version"].as_u64();
    if format != Some(rustdoc_types::FORMAT_VERSION.into()) {
        let wanted = rustdoc_types::FORMAT_VERSION;
        eprintln!("{own} has format {format:?}, and {wanted} is read here");
        std::process::exit(3);
    }
    let mut all = lines(own)?;
    let shown = shown(own)?;
    for other in others {
        let lines = lines(other)?.into_iter();
        all.extend(lines.filter(|line| shown.iter().any(|path| is_of(line, path))));
    }
    // What is shown by two paths has its methods listed twice.
    let mut listed = BTreeSet::new();
    for line in &all {
        if listed.insert(line) {
            println!("{line}");
        }
    }
    Ok(())
}

fn lines(json: &str) -> Result<Vec<String>, Box<dyn Error>> {
    let api = Builder::from_rustdoc_json(json)
        .omit_blanket_impls(true)
        .build()?;
    let lines = api.items().map(PublicItem::to_string);
    let is_told = |line: &String| match line.split_once("core::marker::") {
        Some((_, rest)) if line.starts_with("impl") && !rest.starts_with("Copy") => {
            AUTOMATIC.iter().any(|name| rest.starts_with(name))
        }
        _ => !line.contains("core::panic::unwind_safe::") && !line.contains("::Freeze for "),
    };
    Ok(lines.filter(is_told).collect())
}

fn read(json: &str) -> Result<serde_json::Value, Box<dyn Error>> {
    Ok(serde_json::from_str(&std::fs::read_to_string(json)?)?)
}

/// The paths of the items that a crate shows from others.
fn shown(json: &str) -> Result<BTreeSet<String>, Box<dyn Error>> {
    let json = read(json)?;
    let index = json["index"].as_object().ok_or("no index")?;
    let ids = index.values().filter_map(|item| {
        let is_public = item["visibility"] == "public";
        is_public.then(|| item["inner"]["use"]["id"].as_u64())?
    });
    // Where it is defined: the path by which it was named may be another one.
    let defined = ids.filter_map(|id| {
        let path = json["paths"][id.to_string()]["path"].as_array()?;
        let parts: Option<Vec<_>> = path.iter().map(|part| part.as_str()).collect();
        Some(parts?.join("::"))
    });
    Ok(defined.collect())
}

/// Whether a line is of the item with this path, or of an implementation for it or by it.
fn is_of(line: &str, path: &str) -> bool {
    let end = ["(", ": ", " ="].into_iter().filter_map(|s| line.find(s));
    let name = if line.starts_with("impl") {
        line
    } else {
        &line[..end.min().unwrap_or(line.len())]
    };
    name.match_indices(path).any(|(at, _)| {
        let after = name[at + path.len()..].chars().next();
        !after.is_some_and(|c| c.is_alphanumeric() || c == '_')
    })
}
