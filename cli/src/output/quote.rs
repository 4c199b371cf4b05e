//! Names in messages, quoted as GNU's programs quote them: as a shell would read them, and only where it must be.

use std::ffi::OsStr;
use std::fmt::Write;
use std::os::unix::ffi::OsStrExt;

use fullbore_lab::show::escape::is_hidden;

/// A name as it stands in a message.
pub fn quoted(name: &OsStr) -> String {
    quoted_in(name.as_bytes(), locale_is_utf8())
}

/// Whether the first of the variables that decide, and that is set, names UTF-8.
fn locale_is_utf8() -> bool {
    let set = |name| std::env::var_os(name).filter(|v| !v.is_empty());
    let locale = set("LC_ALL")
        .or_else(|| set("LC_CTYPE"))
        .or_else(|| set("LANG"));
    locale.is_some_and(|l| {
        let l = l.to_string_lossy().to_ascii_lowercase();
        l.contains("utf-8") || l.contains("utf8")
    })
}

fn quoted_in(name: &[u8], utf8: bool) -> String {
    let pieces: Vec<Result<char, u8>> = pieces(name, utf8).collect();
    let is_plain = |(i, p): (usize, &Result<char, u8>)| match *p {
        Ok('~' | '#') => i > 0,
        Ok('{' | '}') => name.len() > 1,
        Ok(c) => !" !\"$&'()*;<=>[\\^`|?".contains(c),
        Err(_) => false,
    };
    let text = || pieces.iter().flatten().collect::<String>();
    if !name.is_empty() && pieces.iter().enumerate().all(is_plain) {
        return text();
    }
    let escapes = pieces.iter().any(Result::is_err);
    let has = |any: &str| pieces.iter().flatten().any(|c| any.contains(*c));
    if has("'") && !escapes && !has("\"$`\\!") {
        return format!("\"{}\"", text());
    }
    let mut out = String::from("'");
    let mut in_escape = false;
    for piece in pieces {
        match piece {
            Ok('\'') => {
                in_escape = false;
                out.push_str("'\\''");
            }
            Ok(c) => {
                if std::mem::take(&mut in_escape) {
                    out.push_str("''");
                }
                out.push(c);
            }
            Err(b) => {
                if !std::mem::replace(&mut in_escape, true) {
                    out.push_str("'$'");
                }
                out.push_str(&escaped(b));
            }
        }
    }
    out.push('\'');
    out
}

/// The characters that can be shown as they are, and the bytes of what cannot.
fn pieces(name: &[u8], utf8: bool) -> impl Iterator<Item = Result<char, u8>> + '_ {
    name.utf8_chunks().flat_map(move |chunk| {
        let valid = chunk.valid().chars().flat_map(move |c| {
            let mut bytes = [0; 4];
            let bytes = c.encode_utf8(&mut bytes).as_bytes().to_vec();
            let shown = !is_hidden(c) && (c.is_ascii() || utf8);
            let escaped = if shown { Vec::new() } else { bytes };
            shown
                .then_some(Ok(c))
                .into_iter()
                .chain(escaped.into_iter().map(Err))
        });
        valid.chain(chunk.invalid().iter().map(|&b| Err(b)))
    })
}

fn escaped(byte: u8) -> String {
    let letter = match byte {
        7 => 'a',
        8 => 'b',
        9 => 't',
        10 => 'n',
        11 => 'v',
        12 => 'f',
        13 => 'r',
        _ => {
            let mut octal = String::new();
            let _ = write!(octal, "\\{byte:03o}");
            return octal;
        }
    };
    format!("\\{letter}")
}

#[cfg(test)]
mod tests {
    use super::*;

    /// As GNU cat 9.1 printed these.
    #[test]
    fn names_are_quoted_as_gnu_quotes_them() {
        for (name, expected) in [
            (&b"plain-name_1.txt"[..], "plain-name_1.txt"),
            (b"a b", "'a b'"),
            (b"it's", "\"it's\""),
            (b"x\ny", "'x'$'\\n''y'"),
            (b"\xff", "''$'\\377'"),
            (b"a$b\"c", "'a$b\"c'"),
            (b"", "''"),
            (b"\n'x", "''$'\\n'\\''x'"),
            (b"a=b", "'a=b'"),
            (b"a#b~", "a#b~"),
            ("ä".as_bytes(), "ä"),
        ] {
            assert_eq!(quoted_in(name, true), expected);
        }
        assert_eq!(
            quoted_in("\u{202e}".as_bytes(), true),
            "''$'\\342\\200\\256'"
        );
        assert_eq!(quoted_in("ä".as_bytes(), false), "''$'\\303\\244'");
    }
}
