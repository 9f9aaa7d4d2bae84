//! `reprise bench` and `reprise psd` execute reprise-bench with the same arguments. So the executable that serves has no
//! code that measures.

use std::ffi::OsString;
use std::os::unix::process::CommandExt;
use std::process::Command;

use crate::exit::{Code, Failure};
use crate::installed::find_program;

/// The arguments, which reprise-bench parses.
#[derive(clap::Args)]
pub struct Arguments {
    #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
    arguments: Vec<OsString>,
}

/// Returns only if reprise-bench is missing or cannot be executed.
pub fn run(verb: &str, arguments: &Arguments) -> Result<Code, Failure> {
    let program = find_program("reprise-bench", Code::NotMeasured)?;
    let error = Command::new(&program).arg(verb).args(&arguments.arguments).exec();
    Err(Failure::new(Code::NotMeasured, program.display().to_string(), error))
}
