//! Process of the exerciser: `exercise ROOT PROCESS SEED`, with commands on standard input.

use std::process::ExitCode;
use uext4_exerciser::worker::{Order, serve};

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let [root, process, seed] = args.as_slice() else {
        eprintln!("exercise ROOT PROCESS SEED");
        return ExitCode::FAILURE;
    };
    let (Ok(process), Ok(seed)) = (process.parse(), seed.parse()) else {
        eprintln!("{process}, {seed}: numbers are wanted");
        return ExitCode::FAILURE;
    };
    let root = root.into();
    match serve(&Order {
        root,
        process,
        seed,
    }) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{error:?}");
            ExitCode::FAILURE
        }
    }
}
