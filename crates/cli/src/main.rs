//! The `demask` command; everything is in the library beside it.

use std::process::ExitCode;

fn main() -> ExitCode {
    demask_cli::main()
}
