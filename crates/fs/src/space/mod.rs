//! Space: the bridge between the allocator (memory), the bitmaps on disk and the journal.
