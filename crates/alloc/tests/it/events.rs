//! Events of free-space trees for subscribers of `tracing`.

use crate::disk::{Choice, Disk, volume};
use std::collections::BTreeMap;
use std::fmt::Debug;
use std::sync::{Arc, Mutex};
use tracing::field::{Field, Visit};
use tracing::{Event, Metadata, Subscriber, span};
use uext4_alloc::{Affinity, ClusterNr, Criterion, Effort, Engine, Request, Run, Stat};
use uext4_format::{GroupNr, Tid};

/// Fields of one event by name, as text.
#[derive(Default)]
struct Fields(BTreeMap<&'static str, String>);

impl Visit for Fields {
    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        self.0.insert(field.name(), format!("{value:?}"));
    }
}

/// Keeps the events of the trees.
#[derive(Clone, Default)]
struct Collector(Arc<Mutex<Vec<BTreeMap<&'static str, String>>>>);

impl Collector {
    fn of(&self, message: &str) -> Vec<BTreeMap<&'static str, String>> {
        let all = self.0.lock().unwrap();
        let alike = all.iter().filter(|fields| fields["message"] == message);
        alike.cloned().collect()
    }
}

impl Subscriber for Collector {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        metadata.target() == "uext4::freespace_tree"
    }
    fn new_span(&self, _: &span::Attributes<'_>) -> span::Id {
        span::Id::from_u64(1)
    }
    fn record(&self, _: &span::Id, _: &span::Record<'_>) {}
    fn record_follows_from(&self, _: &span::Id, _: &span::Id) {}
    fn event(&self, event: &Event<'_>) {
        let mut fields = Fields::default();
        event.record(&mut fields);
        self.0.lock().unwrap().push(fields.0);
    }
    fn enter(&self, _: &span::Id) {}
    fn exit(&self, _: &span::Id) {}
}

/// Takes, gives back, drops and learns.
fn history(engine: &dyn Engine, disk: &Disk) {
    let run = engine.allocate(&Request::new(8), disk).unwrap();
    disk.set(run);
    engine.mark_in_use(run);
    engine.release(engine.allocate(&Request::new(4), disk).unwrap());
    engine.defer_free(Tid(1), run);
    disk.clear(run);
    engine.give_back(Tid(1));
    engine.learn(disk, &|| true);
    assert!(engine.evict(GroupNr(0)));
    let kept = Run::new(ClusterNr(60), 2);
    engine.defer_free(Tid(2), kept);
    disk.clear(kept);
    engine.give_back(Tid(2));
    assert!(
        engine
            .allocate(&Request::new(65).min_len(64), disk)
            .is_err()
    );
}

/// The events match the counters.
#[test]
fn trees_tell_subscribers_what_they_do() {
    let disk = Disk::new(volume(8, 64, 64, 4));
    disk.set(Run::new(ClusterNr(0), 3));
    disk.set(Run::new(ClusterNr(60), 2));
    for group in 0..8 {
        disk.set(Run::new(ClusterNr(group * 64 + 30), 1));
    }
    let trees = Choice::Trees {
        aggression: 1,
        memory: 0,
    };
    let engine = disk.engine(trees, Affinity::None);
    let collector = Collector::default();
    tracing::subscriber::with_default(collector.clone(), || history(&*engine, &disk));
    let count = |message: &str| collector.of(message).len() as u64;
    let stats = engine.stats();
    assert_eq!(count("run taken"), stats.get(Stat::Success));
    assert_eq!(count("run returned"), 2);
    assert_eq!(count("tree built"), stats.get(Stat::Loads));
    assert_eq!(count("region surveyed"), stats.get(Stat::Surveys));
    assert_eq!(count("tree dropped"), stats.get(Stat::Evictions));
    assert_eq!(count("region unknown"), 1);
    assert!(count("region chosen") >= 2);
    let failed = Criterion::ALL.map(|(one, _)| stats.effort(one, Effort::UselessLoops));
    assert_eq!(count("criterion failed"), failed.iter().sum::<u64>());
    assert!(count("criterion failed") >= 2);
    let taken = &collector.of("run taken")[0];
    assert_eq!(taken["len"], "8");
}
