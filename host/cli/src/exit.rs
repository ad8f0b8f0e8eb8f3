//! Exit statuses.
//!
//! Owns the number for each class of outcome. Refuses numbers that mean two things.
//!
//! **Invariant:** a status never changes its meaning once released; README's table is made from here.

use std::process::ExitCode;

use t2m_core::code::{Class, Code};

/// How the program ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum Exit {
    /// Everything that was asked for is done.
    Done = 0,
    /// A fault of this program.
    Unexpected = 1,
    /// The command line isn't valid (clap uses the same number).
    Usage = 2,
    /// A file, argument or input isn't valid.
    Invalid = 3,
    /// A rule, contract or guard refused.
    Denied = 4,
    /// A person must approve or review first.
    ApprovalNeeded = 5,
    /// A tool ran and failed, or a plugin can't be used.
    Failed = 6,
    /// The sandbox stopped a tool at a limit.
    Limit = 7,
    /// The run was cancelled or ran out of time.
    Stopped = 8,
    /// An effect may or may not have happened.
    InDoubt = 9,
    /// What was compared differs.
    Different = 10,
}

impl Exit {
    /// Every status with its meaning, for the table.
    pub(crate) const ALL: [(Exit, &'static str); 11] = [
        (Exit::Done, "done"),
        (Exit::Unexpected, "a fault of this program"),
        (Exit::Usage, "the command line isn't valid"),
        (Exit::Invalid, "a file, argument or input isn't valid"),
        (Exit::Denied, "a rule, contract or guard refused"),
        (Exit::ApprovalNeeded, "a person must approve or review first"),
        (Exit::Failed, "a tool ran and failed, or a plugin can't be used"),
        (Exit::Limit, "the sandbox stopped a tool at a limit"),
        (Exit::Stopped, "the run was cancelled or ran out of time"),
        (Exit::InDoubt, "an effect may or may not have happened"),
        (Exit::Different, "what was compared differs"),
    ];

    /// The status of a comparison.
    pub(crate) fn of_comparison(same: bool) -> Exit {
        if same { Exit::Done } else { Exit::Different }
    }

    /// The status of a code.
    pub(crate) fn of(code: Code) -> Exit {
        match code.class() {
            Class::Usage => Exit::Usage,
            Class::Invalid => Exit::Invalid,
            Class::Denied => Exit::Denied,
            Class::Approval => Exit::ApprovalNeeded,
            Class::Failed => Exit::Failed,
            Class::Limit => Exit::Limit,
            Class::Stopped => Exit::Stopped,
            Class::InDoubt => Exit::InDoubt,
            Class::Unexpected => Exit::Unexpected,
        }
    }
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> ExitCode {
        ExitCode::from(exit as u8)
    }
}
