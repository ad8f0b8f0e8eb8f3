//! Why a command failed.
//!
//! Owns the one error type of the command line. Refuses to lose codes: every failure has one.
//!
//! **Invariant:** the exit status follows from the code.

use std::path::{Path, PathBuf};

use t2m_core::code::Code;
use t2m_core::problem::{Place, Problem, Problems};
use t2m_sandbox::SandboxError;

use crate::exit::Exit;

/// One or more problems, of a file or of the command itself.
#[derive(Debug)]
pub(crate) struct Failure {
    /// The file they are in.
    pub(crate) file: Option<PathBuf>,
    /// The problems; never empty.
    pub(crate) problems: Problems,
    /// What to do next, where more is known than the code says.
    pub(crate) next: Option<String>,
}

pub(crate) type Result<T> = std::result::Result<T, Failure>;

impl Failure {
    /// A single failure that is in no file.
    pub(crate) fn new(code: Code, message: impl Into<String>) -> Failure {
        Failure::from(Problems::from(Problem::new(code, Place::Whole, message)))
    }

    /// A failure of a file as a whole.
    pub(crate) fn of_file(path: &Path, code: Code, message: impl Into<String>) -> Failure {
        Failure { file: Some(path.to_owned()), ..Failure::new(code, message) }
    }

    /// The same with what to do next.
    pub(crate) fn with_next(self, next: impl Into<String>) -> Failure {
        Failure { next: Some(next.into()), ..self }
    }

    /// What to do next.
    pub(crate) fn next(&self) -> &str {
        self.next.as_deref().unwrap_or_else(|| self.problems.code().next_action())
    }

    /// The exit status.
    pub(crate) fn exit(&self) -> Exit {
        Exit::of(self.problems.code())
    }
}

impl From<Problems> for Failure {
    fn from(problems: Problems) -> Failure {
        Failure { file: None, problems, next: None }
    }
}

impl From<SandboxError> for Failure {
    fn from(error: SandboxError) -> Failure {
        Failure::new(error.code(), error.message())
    }
}

/// Says which file problems belong to.
pub(crate) trait InFile<T> {
    fn in_file(self, path: &Path) -> Result<T>;
}

impl<T> InFile<T> for std::result::Result<T, Problems> {
    fn in_file(self, path: &Path) -> Result<T> {
        self.map_err(|problems| Failure { file: Some(path.to_owned()), ..Failure::from(problems) })
    }
}
