//! Random stacks of layers: umoci unpacks them, uext4 builds an image of them, and both trees are
//! compared with each other and with the plain model of [`uext4_testkit::layers`].
//!
//! uext4 takes each stack twice: as it was drawn, with the marks of a layer behind its entries, and
//! in the order of an extraction, which umoci gets. Names, types, permissions, sizes and hard links
//! are compared; each file has a size of its own.

mod canaries;
mod layout;
mod left_out;
mod order;

use std::collections::BTreeMap;
use std::env::var;

use uext4_testkit::layers::{Seen, Stack, listing, listing_of_dir};
use uext4_testkit::oracle::Program;
use uext4_testkit::rng::Rng;
use uext4_testkit::skip;

use self::left_out::Reason;
use self::order::Member;
use crate::rig::Rig;

/// Stacks of one run; `UEXT4_UMOCI_STACKS` gives another number.
const STACKS: u64 = 20;
/// Most stacks that are left out or that both refuse, in percent, and a few more: small runs vary.
const NOT_COMPARED_PERCENT: u64 = 25;
const NOT_COMPARED_MORE: u64 = 5;

/// The members of each layer, from the bottom up.
type Layers = Vec<Vec<Member>>;

/// As drawn, without the layers above one that cannot be applied.
fn drawn(stack: &Stack) -> Layers {
    let layers = stack.layers.iter().take(stack.applied.len());
    layers.map(order::drawn).collect()
}

/// In the order of an extraction.
fn extracted(stack: &Stack) -> Layers {
    let layers = stack.layers.iter().zip(&stack.applied);
    let layers = layers.map(|(layer, applied)| order::extracted(layer, applied));
    layers.collect()
}

/// What umoci makes of layers, or its message.
fn by_umoci(layers: &Layers) -> Result<Seen, String> {
    let rig = Rig::empty();
    layout::write(&rig.path("layout"), layers);
    let image = format!("{}:latest", rig.path("layout").display());
    let umoci = Program::new("umoci").expect("it is installed");
    let umoci = umoci.args(["raw", "unpack", "--image", &image]);
    let output = umoci.arg(rig.path("tree")).run().expect("it ends");
    if output.code == Some(0) {
        Ok(listing_of_dir(&rig.path("tree")))
    } else {
        Err(output.all())
    }
}

/// What uext4 makes of layers, or its message.
fn by_uext4(layers: &Layers) -> Result<Seen, String> {
    let rig = Rig::empty();
    layout::write(&rig.path("layout"), layers);
    let output = rig.run(&["build", "disk.img", "layout", "-q"]);
    if output.status.success() {
        rig.assert_clean();
        Ok(listing(&rig.image()))
    } else {
        Err(String::from_utf8_lossy(&output.stderr).into_owned())
    }
}

/// Stacks by their outcome.
#[derive(Debug, Default)]
struct Counts {
    equal: u64,
    refused: u64,
    left_out: BTreeMap<Reason, u64>,
}

/// Asserts that uext4 makes of layers what the model does.
fn assert_is_model(seed: u64, stack: &Stack, layers: &Layers) {
    match (by_uext4(layers), stack.merged()) {
        (Ok(seen), Some(model)) => assert_eq!(seen, model, "seed {seed}: {layers:?}"),
        (Err(message), None) => assert!(
            message.contains("leads to no directory"),
            "seed {seed}: {message}"
        ),
        (seen, model) => panic!("seed {seed}: {seen:?}, but {model:?}: {layers:?}"),
    }
}

fn check(seed: u64, counts: &mut Counts) {
    let stack = Stack::random(&mut Rng::new(seed));
    if !stack.is_known() {
        *counts.left_out.entry(Reason::Conflict).or_default() += 1;
        return;
    }
    assert_is_model(seed, &stack, &drawn(&stack));
    if let Some(reason) = left_out::reason(&stack) {
        *counts.left_out.entry(reason).or_default() += 1;
        return;
    }
    let layers = extracted(&stack);
    assert_is_model(seed, &stack, &layers);
    match (by_umoci(&layers), stack.merged()) {
        (Ok(seen), Some(model)) => {
            assert_eq!(seen, model, "seed {seed}: {layers:?}");
            counts.equal += 1;
        }
        // An entry below a symbolic link that leads to a file or into a loop. umoci from 0.5 on
        // replaces the file; uext4, umoci 0.4 and Docker refuse it.
        (Err(_), None) => counts.refused += 1,
        (seen, model) => panic!("seed {seed}: {seen:?}, but {model:?}: {layers:?}"),
    }
}

/// Whether umoci can be asked.
fn umoci_or_skip(test: &str) -> bool {
    skip::root_or_skip(test) && skip::programs_or_skip(test, &["umoci"])
}

#[test]
fn random_stacks_are_as_umoci_unpacks_them() {
    if !umoci_or_skip("random_stacks_are_as_umoci_unpacks_them") {
        return;
    }
    let number = |name| var(name).ok().map(|text| text.parse().expect("a number"));
    let count: u64 = number("UEXT4_UMOCI_STACKS").unwrap_or(STACKS);
    let first = number("UEXT4_UMOCI_FIRST").unwrap_or(0);
    let mut counts = Counts::default();
    for seed in first..first + count {
        check(seed, &mut counts);
    }
    eprintln!("{counts:?}");
    let left_out: u64 = counts.left_out.values().sum();
    let most = count * NOT_COMPARED_PERCENT / 100 + NOT_COMPARED_MORE;
    assert!(left_out <= most, "most stacks are compared: {counts:?}");
    assert!(counts.refused <= most, "most are unpacked: {counts:?}");
}
