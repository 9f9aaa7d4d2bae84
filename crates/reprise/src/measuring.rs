//! `reprise bench` and `reprise psd`: reprise-bench, in the place of this process and with the same arguments. What measures
//! is no part of the executable that serves.

use std::ffi::OsString;
use std::os::unix::process::CommandExt;
use std::process::Command;

use crate::exit::{Code, Failure};
use crate::version::find_program;

/// Whatever they are: reprise-bench reads them.
#[derive(clap::Args)]
pub struct Arguments {
    #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
    arguments: Vec<OsString>,
}

/// Does not return unless reprise-bench is missing or cannot be run.
pub fn run(verb: &str, arguments: &Arguments) -> Result<Code, Failure> {
    let program = find_program("reprise-bench", Code::NotMeasured)?;
    let error = Command::new(&program).arg(verb).args(&arguments.arguments).exec();
    Err(Failure::new(Code::NotMeasured, program.display().to_string(), error))
}
