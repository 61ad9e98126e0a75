//! Checks the rules of STYLE.md that a program can check.
//!
//! Not here: formatting (`cargo fmt`) and lints (`cargo clippy`).

mod bypass;
mod cycles;
mod dialect;
mod documents;
mod edges;
mod functions;
mod imports;
mod lexer;
mod locks;
mod modules;
mod offsets;
mod problem;
mod prose;
mod shape;
mod sleeps;
mod source;
mod structure;
mod tokens;
mod uses;
mod words;

use std::path::Path;
use std::process::ExitCode;

use anyhow::Result;

pub(crate) use structure::run as print_structure;

/// Checks all rules and prints the problems.
pub(crate) fn run(root: &Path) -> Result<ExitCode> {
    let sources = source::load(root)?;
    let mut problems = Vec::new();
    for source in &sources {
        problems.extend(shape::check(source));
        problems.extend(words::check(source));
        problems.extend(bypass::check(source));
        problems.extend(offsets::check(source));
        problems.extend(sleeps::check(source));
        problems.extend(prose::check(source));
    }
    for (path, text) in source::texts(root)? {
        problems.extend(prose::check_text(&path, &text));
    }
    problems.extend(functions::check(root, &sources)?);
    problems.extend(documents::check(root, &sources)?);
    problems.extend(edges::check(root)?);
    problems.extend(modules::check(root, &sources)?);
    problems.extend(cycles::check(root, &sources)?);
    problems.extend(dialect::check(root, &sources)?);
    problems.extend(locks::check(root)?);
    problems.sort();
    for problem in &problems {
        eprintln!("{problem}");
    }
    let words = if problems.is_empty() {
        "tidy"
    } else {
        "not tidy"
    };
    println!(
        "{words}: {} files, {} problems",
        sources.len(),
        problems.len()
    );
    Ok(if problems.is_empty() {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    })
}
