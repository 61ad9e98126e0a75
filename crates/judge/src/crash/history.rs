//! The tree after each step, with the durability promised by then.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use uext4_testkit::manifest::{Entry, Manifest};
use uext4_testkit::model::Model;
use uext4_testkit::ops::{Op, RenameHow};

use super::config::Config;
use super::held::OpenFiles;
use super::step::Step;

/// Bytes of a file; equal contents of successive states share memory.
type Content = Arc<[u8]>;

/// State of the model after a step.
pub(super) struct State {
    pub(super) manifest: Manifest,
    /// Inode number of each path of a file.
    pub(super) files: BTreeMap<Vec<u8>, u64>,
    /// Content of every file with a name, or held open without one.
    pub(super) contents: BTreeMap<u64, Content>,
    views: BTreeMap<u64, View>,
    /// The inode whose size the step may have changed gradually.
    pub(super) gradual: Option<u64>,
    /// The inode that may have holes while the step is in progress.
    pub(super) moved: Option<u64>,
    /// The inode whose data behind a place the step moved, and by how many bytes.
    pub(super) shift: Option<(u64, i64)>,
    /// Description for a failure report.
    pub(super) text: String,
}

/// The state of an inode that its fsync makes durable.
#[derive(PartialEq)]
struct View {
    entry: Entry,
    /// Parent and name, ascending.
    names: Vec<(u64, Vec<u8>)>,
    children: Vec<(Vec<u8>, u64)>,
}

/// All states of a run; state 0 is the empty file system.
pub(super) struct History {
    pub(super) states: Vec<State>,
    /// Per step, the oldest state allowed after its return.
    floors: Vec<usize>,
    /// Steps that were a sync.
    syncs: BTreeSet<usize>,
    /// Steps whose purpose is a commit.
    commits: BTreeSet<usize>,
    /// Every step is durable when it returns.
    all_sync: bool,
    /// The last step that changed each inode.
    touched: BTreeMap<u64, usize>,
    /// The last step that changed each inode's data or size.
    written: BTreeMap<u64, usize>,
    /// The last step that made each inode or changed its size.
    sized: BTreeMap<u64, usize>,
    /// Steps that made the data of an inode durable: the inode, and the step that wrote them.
    data_synced: Vec<(usize, u64, usize)>,
    written_out: Vec<WrittenOut>,
}

/// Writeback of delayed data.
struct WrittenOut {
    /// The step that caused it.
    step: usize,
    /// The inode; `None` for all.
    number: Option<u64>,
    when: When,
}

#[derive(PartialEq)]
enum When {
    /// The data are on disk once the step has returned.
    Returned,
    /// The data are on disk once the step's change is.
    Found,
}

impl History {
    pub(super) fn new(model: &Model, config: &Config) -> Self {
        Self {
            states: vec![State::of(
                model,
                &OpenFiles::default(),
                None,
                None,
                "mount".into(),
            )],
            floors: vec![0],
            syncs: BTreeSet::new(),
            commits: BTreeSet::new(),
            all_sync: config.syncs(),
            touched: BTreeMap::new(),
            written: BTreeMap::new(),
            sized: BTreeMap::new(),
            data_synced: Vec::new(),
            written_out: Vec::new(),
        }
    }

    /// Adds the state `model` after a step; only a successful step (`done`) makes promises.
    pub(super) fn push(
        &mut self,
        (step, done): (&Step, bool),
        model: &Model,
        held: &mut OpenFiles,
        text: String,
    ) {
        if let Some((before, now)) = held.take_named() {
            self.renumber(before, now);
        }
        let last = self.states.last().expect("there is state 0");
        let state = State::of(model, held, Some(last), Some(step), text);
        let now = self.states.len();
        for (number, view) in &state.views {
            let same_view = last.views.get(number) == Some(view);
            let (old, new) = (last.contents.get(number), state.contents.get(number));
            if !same_view || old != new {
                self.touched.insert(*number, now);
            }
            let is_new = !last.views.contains_key(number);
            if old != new || is_new {
                self.written.insert(*number, now);
            }
            if is_new || old.map(|old| old.len()) != new.map(|new| new.len()) {
                self.sized.insert(*number, now);
            }
        }
        if done && matches!(step, Step::Sync | Step::Freeze | Step::Unmount) {
            self.syncs.insert(now);
        }
        if step.commits() || self.all_sync {
            self.commits.insert(now);
        }
        if done && let Some((number, when)) = written_out(step, last, model) {
            let step = now;
            self.written_out.push(WrittenOut { step, number, when });
        }
        let before = self.floors[now - 1];
        let floor = match step {
            _ if !done => 0,
            _ if self.all_sync => now,
            Step::Sync | Step::Freeze | Step::Unmount => now,
            Step::Op(Op::Fsync { path }) => promised(&self.touched, model, path),
            // Data that are overwritten in place need no commit, so the rest may be older.
            Step::Fdatasync { path } => {
                if let Some(number) = model.numbers().get(path) {
                    let written = promised(&self.written, model, path);
                    self.data_synced.push((now, *number, written));
                }
                promised(&self.sized, model, path)
            }
            _ => 0,
        };
        self.states.push(state);
        self.floors.push(floor.max(before));
    }

    /// Changes the number of an inode that got its first name.
    fn renumber(&mut self, before: u64, now: u64) {
        for (_, synced, _) in &mut self.data_synced {
            if *synced == before {
                *synced = now;
            }
        }
        for state in &mut self.states {
            if let Some(content) = state.contents.remove(&before) {
                state.contents.insert(now, content);
            }
        }
    }

    /// Number of the last step.
    pub(super) fn last(&self) -> usize {
        self.states.len() - 1
    }

    /// Whether `step` was a sync of everything.
    pub(super) fn is_sync(&self, step: usize) -> bool {
        self.syncs.contains(&step)
    }

    /// Whether the purpose of `step` is a commit.
    pub(super) fn commits(&self, step: usize) -> bool {
        self.commits.contains(&step)
    }

    /// The oldest state that is allowed after `step` returned.
    pub(super) fn floor(&self, step: usize) -> usize {
        self.floors[step]
    }

    /// The oldest state whose data the file may hold by promise of `fdatasync`, if step `returned`
    /// had returned.
    pub(super) fn synced_data(&self, number: u64, returned: usize) -> usize {
        let synced = self
            .data_synced
            .iter()
            .filter(|(step, synced, _)| *synced == number && *step <= returned);
        synced.map(|(_, _, written)| *written).max().unwrap_or(0)
    }

    /// The oldest state whose data the file may hold, if the found tree is that of state `found`
    /// and step `returned` had returned.
    pub(super) fn data_floor(&self, number: u64, found: usize, returned: usize) -> usize {
        let steps = self
            .written_out
            .iter()
            .filter(|out| {
                let until = match out.when {
                    When::Returned => returned,
                    When::Found => found,
                };
                out.number.is_none_or(|written| written == number) && out.step <= until
            })
            .map(|out| out.step);
        steps.max().unwrap_or(0)
    }
}

/// The step up to which a sync covers the file at `path`.
fn promised(steps: &BTreeMap<u64, usize>, model: &Model, path: &[u8]) -> usize {
    let number = model.numbers().get(path).copied();
    let step = number.and_then(|number| steps.get(&number));
    step.copied().unwrap_or(0)
}

/// The inode whose delayed data the step writes back (`None`: all inodes), and when that holds.
fn written_out(step: &Step, before: &State, model: &Model) -> Option<(Option<u64>, When)> {
    let number = |path: &[u8]| model.numbers().get(path).copied();
    match step {
        Step::Sync | Step::Freeze | Step::Unmount => Some((None, When::Returned)),
        Step::Op(Op::Fsync { path }) | Step::Fdatasync { path } => {
            Some((number(path), When::Returned))
        }
        // A file that replaces another has its data written first (`auto_da_alloc`).
        Step::Op(Op::Rename { from, to, how })
            if *how != RenameHow::Exchange
                && before.files.contains_key(to)
                && before.files.get(from) != before.files.get(to) =>
        {
            Some((number(to), When::Found))
        }
        _ => None,
    }
}

impl State {
    fn of(
        model: &Model,
        held: &OpenFiles,
        before: Option<&State>,
        step: Option<&Step>,
        text: String,
    ) -> Self {
        let mut manifest = model.manifest();
        if let Some(root) = manifest.entries.get_mut(&b""[..]) {
            root.nlink += 1; // `lost+found`, which no manifest shows
        }
        let mut contents: BTreeMap<u64, Content> = BTreeMap::new();
        let mut files = BTreeMap::new();
        let named = model.files();
        files.extend(
            named
                .iter()
                .map(|(path, (number, _))| (path.clone(), *number)),
        );
        for (number, data) in named.into_values().chain(held.contents()) {
            let old = before.and_then(|before| before.contents.get(&number));
            let content = match old.filter(|old| ***old == *data) {
                Some(old) => old.clone(),
                None => data.into(),
            };
            contents.insert(number, content);
        }
        let numbers = model.numbers();
        let number = |path: &[u8]| numbers.get(path).copied();
        Self {
            views: views(&manifest, &numbers),
            gradual: step.and_then(Step::gradual).and_then(number),
            moved: step.and_then(Step::moves).and_then(number),
            shift: step
                .and_then(Step::shifts)
                .and_then(|(path, by)| Some((number(path)?, by))),
            manifest,
            files,
            contents,
            text,
        }
    }
}

fn views(manifest: &Manifest, numbers: &BTreeMap<Vec<u8>, u64>) -> BTreeMap<u64, View> {
    let mut views: BTreeMap<u64, View> = BTreeMap::new();
    for (path, number) in numbers {
        let mut entry = manifest.entries[path].clone();
        (entry.link_group, entry.hash) = (None, None);
        views.entry(*number).or_insert_with(|| View {
            entry,
            names: Vec::new(),
            children: Vec::new(),
        });
    }
    for (path, number) in numbers.iter().filter(|(path, _)| !path.is_empty()) {
        let at = path.iter().rposition(|byte| *byte == b'/');
        let (parent, name) =
            at.map_or((&path[..0], &path[..]), |at| (&path[..at], &path[at + 1..]));
        let parent = numbers[parent];
        let of = |number| views.contains_key(&number);
        debug_assert!(of(parent) && of(*number), "both were entered above");
        if let Some(view) = views.get_mut(number) {
            view.names.push((parent, name.to_vec()));
        }
        if let Some(view) = views.get_mut(&parent) {
            view.children.push((name.to_vec(), *number));
        }
    }
    views.values_mut().for_each(|view| view.names.sort());
    views
}
