//! Marks of layers: whiteouts and opaque directories, which hide paths of the layers below.

use crate::error::Result;
use crate::sources::layers::{PathSlot, Purpose};
use crate::tree::arena::Tree;
use crate::tree::file::Origin;
use crate::tree::ids::FileId;

/// Upper layers that [`Tree::is_covered`] looks through.
const COVERING_MAX: usize = 64;
/// Directories above a path for which [`Tree::is_covered`] looks it up.
const COVERED_LEVELS_MAX: usize = 64;

impl Tree {
    /// Hides a path of the layers below.
    pub(crate) fn hide(&mut self, path: &[u8]) -> Result<()> {
        match self.walk(path, Purpose::Hide)? {
            PathSlot::Root => return self.hide_below(path),
            PathSlot::Name {
                parent,
                name,
                known,
            } => {
                let id = match known {
                    Some(id) => id,
                    None => self.new_name(parent, name, FileId::NONE)?,
                };
                self.names.get_mut(id).hides = true;
            }
        }
        self.record_marks();
        Ok(())
    }

    /// Hides everything below a path of the layers below.
    pub(crate) fn hide_below(&mut self, path: &[u8]) -> Result<()> {
        let directory = match self.walk(path, Purpose::Hide)? {
            PathSlot::Root => self.layer_root(),
            PathSlot::Name {
                parent,
                name,
                known,
            } => match known.map(|id| self.names.get(id).file) {
                Some(file) if file != FileId::NONE => file,
                _ => self.make_directory(parent, name, known, Origin::Marks)?,
            },
        };
        let mark = self.layer.saturating_add(1);
        self.file_mut(directory).opaque = mark;
        self.record_marks();
        Ok(())
    }

    pub(crate) fn record_marks(&mut self) {
        if let Some(layer) = self.layers.last_mut() {
            layer.has_marks = true;
        }
    }

    /// Whether one of the layers just above hides a path of this layer, as far as that can be told
    /// before all layers are known. An error costs time or space: the merge decides.
    pub(crate) fn is_covered(&self, path: &[u8]) -> bool {
        let levels = path.iter().filter(|byte| **byte == b'/').count();
        if levels >= COVERED_LEVELS_MAX {
            return false;
        }
        let mut upper = self.layers.iter().rev().skip(1).take(COVERING_MAX);
        upper.any(|layer| self.covers(layer.root, path))
    }

    fn covers(&self, root: FileId, path: &[u8]) -> bool {
        let mut at = root;
        for name in path.split(|byte| *byte == b'/') {
            if self.file(at).opaque != 0 {
                return true;
            }
            let Some(known) = self.names.find(at, name).map(|id| self.names.get(id)) else {
                return false;
            };
            if known.hides || !self.file(known.file).is_directory() {
                return true;
            }
            at = known.file;
        }
        self.file(at).origin != Origin::Marks
    }
}
