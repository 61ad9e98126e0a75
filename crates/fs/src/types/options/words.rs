//! Parser of `mount -o` lists. The words are in [`super::table`].

use super::fields::{Allocator, DataMode, MountOptions};
use super::table::{Form, REFUSED, Row, TABLE, WordAction};
use crate::types::error::{Error, Result};

/// Words of `mount -o` for one setting, for help pages.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OptionHelp {
    /// Heading of its section in the help page.
    pub section: &'static str,
    /// The forms of the words, as `acl` or `commit=SECONDS`.
    pub forms: Vec<String>,
    /// Their effect, or the reason for a refusal.
    pub about: &'static str,
}

/// The heading of refused words.
const REFUSED_TITLE: &str = "Options of ext4 that are refused";

/// Applies a comma separated list.
pub(super) fn apply_list(options: &mut MountOptions, list: &str) -> Result<()> {
    list.split(',')
        .filter(|word| !word.is_empty())
        .try_for_each(|word| apply(options, word))
}

fn rows() -> impl Iterator<Item = (&'static str, &'static Row)> {
    TABLE
        .iter()
        .flat_map(|section| section.rows.iter().map(|row| (section.title, row)))
}

fn apply(options: &mut MountOptions, word: &str) -> Result<()> {
    let (name, value) = match word.split_once('=') {
        None => (word, None),
        Some((name, value)) => (name, Some(value)),
    };
    for form in rows().flat_map(|(_, row)| row.forms) {
        match (&form.kind, value) {
            (WordAction::Flag(set), None) if form.name == name => {
                set(options);
                return Ok(());
            }
            (WordAction::Value(_, set), Some(value)) if form.name == name => {
                return set(options, name, value);
            }
            (WordAction::Nothing, _) if form.name == word => return Ok(()),
            (WordAction::NothingBehind, _) if word.starts_with(form.name) => return Ok(()),
            _ => {}
        }
    }
    Err(refusal(word))
}

fn refusal(word: &str) -> Error {
    let name = word.split('=').next().unwrap_or(word);
    let reason = REFUSED
        .iter()
        .find(|(refused, _)| *refused == name)
        .map(|(_, reason)| *reason);
    let unknown = "there is no option of this name; `uext4 mount --help` lists them";
    Error::Option(format!("{word}: {}", reason.unwrap_or(unknown)))
}

/// All accepted words, and those refused by name.
pub(super) fn help() -> Vec<OptionHelp> {
    let taken = rows().map(|(section, row)| OptionHelp {
        section,
        forms: row.forms.iter().map(shown).collect(),
        about: row.about,
    });
    let refused = REFUSED.iter().map(|(name, reason)| OptionHelp {
        section: REFUSED_TITLE,
        forms: vec![(*name).to_owned()],
        about: reason,
    });
    taken.chain(refused).collect()
}

fn shown(form: &Form) -> String {
    match form.kind {
        WordAction::Flag(_) | WordAction::Nothing => form.name.to_owned(),
        WordAction::Value(value, _) => format!("{}={value}", form.name),
        WordAction::NothingBehind => format!("{}...", form.name),
    }
}

/// Refuses combinations that are invalid once all sources are merged.
pub(super) fn check_together(options: &MountOptions) -> Result<()> {
    if options.data == DataMode::Journal {
        let reason =
            "data=journal: data cannot go through the journal yet; mount with data=ordered";
        return Err(Error::Option(reason.into()));
    }
    let defaults = MountOptions::default();
    let same_aggression = options.cache_aggression == defaults.cache_aggression;
    let same_memory = options.freespace_memory_bytes == defaults.freespace_memory_bytes;
    if options.allocator != Allocator::FreespaceTree && !(same_aggression && same_memory) {
        let reason = "cache_aggression= and freespace_memory= are for allocator=freespace-tree";
        return Err(Error::Option(reason.into()));
    }
    Ok(())
}
