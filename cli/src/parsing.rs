//! What is said of a command line that clap refused: in our own words, or in those of the program that a link is named after.

use std::ffi::OsString;
use std::io::{self, Write};
use std::process::ExitCode;

use clap::error::{ContextKind, ContextValue, ErrorKind};
use fullbore_lab::sys::start;
use rustix::io::Errno;

use crate::cli::{SHORT_HELP, definition_of_link, help_for};
use crate::output::failure::{Failure, complain, print_result, printed};
use crate::tools::stand_in::Voice;
use crate::tools::view;
use fullbore_lab::show::escape::visible;

/// Says in one line what is wrong with a command line (the command put in), or prints the help that was asked for.
pub fn explain(error: &clap::Error, typed: &[OsString]) -> ExitCode {
    if matches!(
        error.kind(),
        ErrorKind::DisplayHelp | ErrorKind::DisplayVersion
    ) {
        return print_help(error);
    }
    if error.kind() == ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand {
        return print_result(SHORT_HELP).map_or_else(Failure::report, |()| ExitCode::SUCCESS);
    }
    if let Some(code) = explain_as_stand_in(error) {
        return code;
    }
    let text = error.render().to_string();
    let message = one_line(&text);
    if view::is_pv() {
        let words = getopt_words(error, "pv");
        return view::misused_as_pv(&words.unwrap_or(message));
    }
    complain(&format!("{message}; see {}", help_for(typed)));
    ExitCode::from(2)
}

/// Prints help, or the version. The reader may go away: `fullbore --help | head -1`.
fn print_help(help: &clap::Error) -> ExitCode {
    let voice = Voice::of_process();
    voice.take_signals();
    let result = if start::was_closed(1) {
        Err(Errno::BADF.into())
    } else {
        help.print().and_then(|()| io::stdout().flush())
    };
    let outcome = match result {
        Err(e) if !voice.is_own() => voice.output_failed("write error", &e),
        Err(e) if view::is_pv() => return view::failed_help_of_pv(e),
        other => printed(other),
    };
    outcome.map_or_else(Failure::report, |()| ExitCode::SUCCESS)
}

/// clap's message without its frame: the first line, and the indented items that belong to it.
fn one_line(text: &str) -> String {
    let text = text.strip_prefix("error: ").unwrap_or(text);
    let paragraph: Vec<_> = text
        .lines()
        .take_while(|line| !line.is_empty())
        .map(str::trim)
        .collect();
    let mut line = paragraph.join(" ");
    if let Some(tip) = text.lines().find_map(|l| l.trim().strip_prefix("tip: ")) {
        line = format!("{line}: {tip}");
    }
    // `what: why` also for messages that clap words as one clause.
    if line.contains(": ") {
        line
    } else {
        format!("command line: {line}")
    }
}

/// What a stand-in says of a wrong command line; `None` where the binary is no stand-in.
fn explain_as_stand_in(error: &clap::Error) -> Option<ExitCode> {
    let Voice::StandIn(name) = Voice::of_process() else {
        return None;
    };
    let message = getopt_words(error, name).unwrap_or_else(|| {
        let text = error.to_string();
        let line = text.lines().next().unwrap_or_default();
        line.trim_start_matches("error: ").to_owned()
    });
    Voice::StandIn(name).say(&message, "");
    let _ = writeln!(io::stderr(), "Try '{name} --help' for more information.");
    Some(ExitCode::from(1))
}

/// What getopt_long(3) says of a command line that clap refused, behind a link of this name; `None` where it has no words.
fn getopt_words(error: &clap::Error, link: &str) -> Option<String> {
    let context = |kind| match error.get(kind) {
        Some(ContextValue::String(text)) => text.as_str(),
        _ => "",
    };
    let option = context(ContextKind::InvalidArg);
    let long = option.split(['=', '[', ' ']).next().unwrap_or_default();
    let value = context(ContextKind::InvalidValue);
    let words = match error.kind() {
        ErrorKind::UnknownArgument if option.starts_with("--") => {
            let typed = as_typed(option);
            let meant: String = meant(option, link)
                .iter()
                .map(|name| format!(" '--{name}'"))
                .collect();
            if meant.is_empty() {
                format!("unrecognized option '{typed}'")
            } else {
                format!("option '{typed}' is ambiguous; possibilities:{meant}")
            }
        }
        ErrorKind::UnknownArgument => {
            format!("invalid option -- '{}'", option.trim_start_matches('-'))
        }
        ErrorKind::InvalidValue if value.is_empty() && last_is_option() => {
            match last().strip_prefix("--") {
                Some(_) => format!("option '{long}' requires an argument"),
                None => {
                    let letter = last().chars().last().unwrap_or('-');
                    format!("option requires an argument -- '{letter}'")
                }
            }
        }
        ErrorKind::InvalidValue | ErrorKind::ValueValidation => {
            format!("invalid argument ‘{value}’ for ‘{long}’")
        }
        ErrorKind::TooManyValues => format!("option '{long}' doesn't allow an argument"),
        _ => return None,
    };
    Some(visible(&words).into_owned())
}

/// An option with the value that may hang on it.
fn as_typed(option: &str) -> String {
    let with_value = format!("{option}=");
    std::env::args_os()
        .map(|arg| arg.to_string_lossy().into_owned())
        .find(|arg| arg == option || arg.starts_with(&with_value))
        .unwrap_or_else(|| option.to_owned())
}

/// The options that an abbreviation may mean.
fn meant(option: &str, link: &str) -> Vec<String> {
    let mut definition = definition_of_link(link);
    definition.build();
    let command = definition.find_subcommand(link);
    let names = command.into_iter().flat_map(|c| c.get_arguments());
    names
        .filter_map(|arg| arg.get_long())
        .filter(|name| name.starts_with(option.trim_start_matches('-')))
        .map(str::to_owned)
        .collect()
}

fn last() -> String {
    let last = std::env::args_os().next_back().unwrap_or_default();
    last.to_string_lossy().into_owned()
}

/// Whether the command line ends with an option, so that its value is missing.
fn last_is_option() -> bool {
    last().len() > 1 && last().starts_with('-') && !last().contains('=')
}

#[cfg(test)]
mod tests {
    use super::one_line;

    #[test]
    fn message_of_several_lines_becomes_one() {
        let text = "error: invalid value '12Q' for '--buf-size <SIZE>': unknown unit\n\nFor more information, try '--help'.\n";
        assert_eq!(
            one_line(text),
            "invalid value '12Q' for '--buf-size <SIZE>': unknown unit"
        );
        let text = "error: unexpected argument '--foo' found\n\nUsage: fullbore\n";
        assert_eq!(
            one_line(text),
            "command line: unexpected argument '--foo' found"
        );
    }
}
