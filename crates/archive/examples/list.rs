//! Lists what a tar, an OCI layout or a docker archive would put into an image:
//! `list SOURCE [PLATFORM]`.

use std::io;
use uext4_archive::{Options, Source};
use uext4_builder::{Data, Entry, Error, Node, Result, Sink};

#[derive(Default)]
struct List {
    files: u64,
    bytes: u64,
}

impl Sink for List {
    fn next_layer(&mut self) -> Result<()> {
        println!("-- the next layer below");
        Ok(())
    }

    fn add(&mut self, entry: Entry<'_>) -> Result<()> {
        let path = entry.path.escape_ascii();
        println!("{:04o} {path}", entry.attributes.permissions);
        self.files += 1;
        if let Node::File(content) = entry.node {
            self.bytes += content.size;
            if let Data::Stream { reader, .. } = content.data {
                io::copy(reader, &mut io::sink()).map_err(|error| Error::Source {
                    source_name: path.to_string(),
                    error,
                })?;
            }
        }
        Ok(())
    }

    fn hide(&mut self, path: &[u8]) -> Result<()> {
        println!("hides {}", path.escape_ascii());
        Ok(())
    }

    fn hide_below(&mut self, path: &[u8]) -> Result<()> {
        println!("hides all below {}", path.escape_ascii());
        Ok(())
    }
}

fn main() -> std::result::Result<(), Box<dyn std::error::Error>> {
    let mut arguments = std::env::args().skip(1);
    let path = arguments.next().ok_or("usage: list SOURCE [PLATFORM]")?;
    let options = Options {
        platform: arguments.next().map(|text| text.parse()).transpose()?,
        ..Options::default()
    };
    let mut list = List::default();
    Source::open(path)?.feed(&mut list, &options)?;
    println!("{} entries, {} bytes", list.files, list.bytes);
    Ok(())
}
