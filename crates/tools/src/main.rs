//! The program `uext4`.
#![forbid(unsafe_code)]

fn main() -> std::process::ExitCode {
    uext4_tools::run(std::env::args_os().collect())
}
