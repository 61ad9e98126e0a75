//! Baselines by name. Processes of the lab select them by internal words beside mount options.

use uext4::BaseLines;

/// Prefix of the mount words that select base lines.
const PREFIX: &str = "lab_";

const NAMES: [&str; 8] = [
    "blocking_groups",
    "locked_goal",
    "cold_groups",
    "untracked_orphans",
    "locked_orphans",
    "sorted_shrinker",
    "scanned_checkpoints",
    "racing_inodes",
];

fn field<'a>(base_lines: &'a mut BaseLines, name: &str) -> Option<&'a mut bool> {
    Some(match name {
        "blocking_groups" => &mut base_lines.blocking_groups,
        "locked_goal" => &mut base_lines.locked_goal,
        "cold_groups" => &mut base_lines.cold_groups,
        "untracked_orphans" => &mut base_lines.untracked_orphans,
        "locked_orphans" => &mut base_lines.locked_orphans,
        "sorted_shrinker" => &mut base_lines.sorted_shrinker,
        "scanned_checkpoints" => &mut base_lines.scanned_checkpoints,
        "racing_inodes" => &mut base_lines.racing_inodes,
        _ => return None,
    })
}

/// The baselines of these names.
pub(crate) fn of_names(names: &[&str]) -> BaseLines {
    let mut base_lines = BaseLines::default();
    for name in names {
        *field(&mut base_lines, name).expect("a name of the list") = true;
    }
    base_lines
}

/// The options with the words of the baselines.
pub(crate) fn with_words(options: &str, mut base_lines: BaseLines) -> String {
    let mut words: Vec<String> = vec![options.to_owned()];
    let names = NAMES
        .into_iter()
        .filter(|name| field(&mut base_lines, name).is_some_and(|on| *on));
    words.extend(names.map(|name| format!("{PREFIX}{name}")));
    words.join(",")
}

/// Cuts the words of baselines out of a list of options.
pub(crate) fn cut_words(list: &str) -> (String, BaseLines) {
    let mut base_lines = BaseLines::default();
    let mut rest = Vec::new();
    for word in list.split(',') {
        let name = word.strip_prefix(PREFIX);
        match name.and_then(|name| field(&mut base_lines, name)) {
            Some(on) => *on = true,
            None => rest.push(word),
        }
    }
    (rest.join(","), base_lines)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_select_what_they_name() {
        for name in NAMES {
            let base_lines = of_names(&[name]);
            assert_ne!(base_lines, BaseLines::default(), "{name}");
            let words = with_words("sync,noatime", base_lines);
            assert_eq!(cut_words(&words), ("sync,noatime".to_owned(), base_lines));
        }
    }
}
