//! The comparison can fail, and no reason to leave a stack out is idle.

use uext4_testkit::layers::{Layer, Object, Stack};

use super::left_out::{self, Reason};
use super::{by_uext4, by_umoci, drawn, extracted, umoci_or_skip};

fn directory(path: &str, mode: u16) -> (String, Object) {
    (path.to_owned(), Object::Directory { mode: Some(mode) })
}

fn file(path: &str, size: u64) -> (String, Object) {
    (path.to_owned(), Object::File(size))
}

fn symlink(path: &str, target: &str) -> (String, Object) {
    (path.to_owned(), Object::Symlink(target.to_owned()))
}

fn link(path: &str, target: &str) -> (String, Object) {
    (path.to_owned(), Object::Link(target.to_owned()))
}

fn layer(entries: Vec<(String, Object)>, whiteouts: &[&str], opaque: &[&str]) -> Layer {
    let paths = |paths: &[&str]| paths.iter().map(|path| (*path).to_owned()).collect();
    Layer {
        entries,
        whiteouts: paths(whiteouts),
        opaque: paths(opaque),
    }
}

fn stack(layers: impl IntoIterator<Item = Layer>) -> Stack {
    let mut stack = Stack::default();
    layers.into_iter().for_each(|layer| stack.push(layer));
    stack
}

/// Two layers with everything that a listing shows.
fn example() -> [Layer; 2] {
    let lower = vec![
        directory("a", 0o750),
        file("a/hidden", 3),
        directory("b", 0o700),
        file("b/hidden", 4),
        symlink("c", "a"),
        file("d", 5),
    ];
    let upper = vec![
        file("b/new", 6),
        link("b/name", "b/new"),
        file("c/through", 7),
        link("e", "d"),
    ];
    [layer(lower, &[], &[]), layer(upper, &["a/hidden"], &["b"])]
}

#[test]
fn a_changed_layer_is_seen() {
    if !umoci_or_skip("a_changed_layer_is_seen") {
        return;
    }
    let built = by_uext4(&drawn(&stack(example()))).expect("it builds");
    let unpacked = |layers| by_umoci(&extracted(&stack(layers))).expect("umoci unpacks it");
    assert_eq!(unpacked(example()), built);
    type Change = fn(&mut [Layer; 2]);
    let changes: [(&str, Change); 8] = [
        ("mode", |layers| {
            layers[0].entries[0] = directory("a", 0o751)
        }),
        ("type", |layers| {
            layers[0].entries[5] = symlink("d", "12345")
        }),
        ("byte", |layers| layers[1].entries[0] = file("b/new", 7)),
        ("name", |layers| layers[1].entries[2] = file("c/Through", 7)),
        ("two files", |layers| {
            layers[1].entries[1] = file("b/name", 6)
        }),
        ("another file", |layers| {
            layers[1].entries[3] = link("e", "b/new")
        }),
        ("whiteout", |layers| layers[1].whiteouts.clear()),
        ("opaque mark", |layers| layers[1].opaque.clear()),
    ];
    for (name, change) in changes {
        let mut layers = example();
        change(&mut layers);
        assert_ne!(unpacked(layers), built, "{name}");
    }
}

#[test]
fn umoci_differs_where_stacks_are_left_out() {
    if !umoci_or_skip("umoci_differs_where_stacks_are_left_out") {
        return;
    }
    let hidden_target = [
        layer(vec![file("a", 2)], &[], &[]),
        layer(vec![link("b", "a")], &["a"], &[]),
    ];
    let replaced_target = [
        layer(vec![file("a/b", 2)], &[], &[]),
        layer(vec![link("a", "a/b")], &[], &[]),
    ];
    let looping_mark = [
        layer(vec![symlink("a", "a"), file("b", 2)], &[], &[]),
        layer(Vec::new(), &["a/b", "b"], &[]),
    ];
    let conflict = [
        layer(vec![symlink("a", "..")], &[], &[]),
        layer(vec![directory("a/a", 0o700), file("a/a/b", 2)], &[], &[]),
    ];
    let cases = [
        (hidden_target, Reason::LostTarget),
        (replaced_target, Reason::LostTarget),
        (looping_mark, Reason::LoopingMark),
        (conflict, Reason::Conflict),
    ];
    for (layers, reason) in cases {
        let stack = stack(layers);
        assert_eq!(left_out::reason(&stack), Some(reason), "{stack:?}");
        let model = stack.merged().expect("uext4 takes it");
        assert_eq!(by_uext4(&drawn(&stack)), Ok(model.clone()), "{stack:?}");
        assert_ne!(by_umoci(&extracted(&stack)), Ok(model), "{stack:?}");
    }
}
