//! Feeds layers from the top down; threads decompress some of the next ones meanwhile.
//!
//! The next layer waits in memory, else its thread would stand still until it is its turn, and all
//! layers would be decompressed one after the other.

use super::digest::Verified;
use super::document::open;
use super::{Layer, Of, Store, layers};
use crate::ahead::Ahead;
use crate::budget::{Budget, Counted, Side};
use crate::compression::{Compression, MAGIC_BYTES, peek};
use crate::fault::{Checked, Fault};
use crate::options::Options;
use crate::tar::{EndMark, Feed, Reader, Tape, Whiteouts};
use std::collections::VecDeque;
use std::io::{self, Read};
use std::sync::Arc;
use uext4_builder::{Result, Sink};
use uext4_num::u64_of;

/// Bytes of all layers that are decompressed ahead: two of the usual size.
const AHEAD_BYTES: usize = 64 << 20;

/// Feeds one image of a store.
///
/// # Errors
/// Those of the store's files and of the sink.
pub(crate) fn feed(
    source_name: &str,
    store: &Store,
    sink: &mut dyn Sink,
    options: &Options,
) -> Result<()> {
    let of_source = |fault: Fault| fault.of_source(source_name);
    let layers = layers(store, options).map_err(of_source)?;
    let budget = Budget::new(options.limit);
    let mut waiting = layers.iter().rev();
    let mut running: VecDeque<(&Layer, Ahead)> = VecDeque::new();
    let mut is_first = true;
    loop {
        for layer in waiting.by_ref().take(options.threads() - running.len()) {
            let ahead = start(store, layer, &budget, options).map_err(of_source)?;
            running.push_back((layer, ahead));
        }
        let Some((layer, ahead)) = running.pop_front() else {
            return Ok(());
        };
        if !is_first {
            sink.next_layer()?;
        }
        is_first = false;
        let mut reader = Reader::new(Tape::stream(Box::new(ahead)), EndMark::Optional);
        let result = Feed::new(sink, options, Whiteouts::Hide).read(&mut reader);
        result.map_err(|fault| {
            let name = format!("{source_name}, layer {}", layer.expected.digest);
            fault.of_source(&name)
        })?;
    }
}

/// Starts to decompress a layer.
fn start(store: &Store, layer: &Layer, budget: &Arc<Budget>, options: &Options) -> Checked<Ahead> {
    let bytes = AHEAD_BYTES / options.threads();
    let blob = open(store, &layer.name)?;
    let expected = layer.expected.clone();
    let of = layer.of;
    let budget = Arc::clone(budget);
    let memory = options.decoder_memory;
    Ok(Ahead::start(bytes, options.is_cancelled, move || {
        let mut reader: Box<dyn Read + Send> = Box::new(Counted {
            reader: blob.reader,
            budget: Arc::clone(&budget),
            side: Side::Read,
        });
        if of == Of::Blob {
            reader = Box::new(Verified::new(reader, expected.clone()));
        }
        let mut reader = decoded(reader, budget, memory)?;
        if of == Of::Tar {
            reader = Box::new(Verified::new(reader, expected));
        }
        Ok(reader)
    })?)
}

fn decoded(
    reader: Box<dyn Read + Send>,
    budget: Arc<Budget>,
    memory: Option<u64>,
) -> io::Result<Box<dyn Read + Send>> {
    let (start, reader) = peek(reader, u64_of(MAGIC_BYTES))?;
    Ok(Box::new(Counted {
        reader: Compression::of(&start).decoder(reader, memory)?,
        budget,
        side: Side::Made,
    }))
}
