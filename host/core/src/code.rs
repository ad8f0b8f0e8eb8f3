//! The one table of stable codes that people, scripts and clients meet.
//!
//! Owns the code, whose fault it is, whether a retry can help, and what to do next. Refuses free-text
//! error kinds anywhere else.
//!
//! **Invariant:** a code's text never changes once released; exit status, JSON output, journal and MCP
//! replies all use this table.

use std::fmt;

use serde::{Deserialize, Serialize};

/// Who can mend what a code reports.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum Blame {
    /// The person or program that asked: wrong file, argument or input.
    Caller,
    /// The operator's own rules said no.
    Policy,
    /// The plugin misbehaved or its tool failed.
    Guest,
    /// Another server failed.
    Upstream,
    /// This host has a fault.
    Host,
}

/// Whether the same call may succeed if it is made again.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum Retry {
    /// The same call gives the same answer.
    Never,
    /// Nothing ran; repeat after the cause is mended.
    AfterChange,
    /// A call that only reads may be repeated. One with an effect may have acted: look first.
    IfReadOnly,
}

/// The class of a code; the process exit status is made from it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Class {
    /// The command line isn't valid.
    Usage,
    /// A file, argument or input isn't valid.
    Invalid,
    /// A rule, contract or guard refused the call.
    Denied,
    /// A person must approve first.
    Approval,
    /// The tool ran and failed, or its plugin can't be used.
    Failed,
    /// The sandbox stopped the tool at a limit.
    Limit,
    /// The run was cancelled or ran out of time.
    Stopped,
    /// An effect may or may not have happened.
    InDoubt,
    /// A fault of this host.
    Unexpected,
}

macro_rules! codes {
    ($($(#[doc = $doc:literal])+ $name:ident = $text:literal, $class:ident, $blame:ident, $retry:ident, $next:literal;)+) => {
        /// A stable code. `Display` and serde use its kebab-case text.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
        #[non_exhaustive]
        pub enum Code {
            $($(#[doc = $doc])+ $name,)+
        }

        impl Code {
            /// Every code, in the order of the table.
            pub const ALL: &'static [Code] = &[$(Code::$name,)+];

            /// The code's stable text.
            pub const fn as_str(self) -> &'static str {
                match self { $(Code::$name => $text,)+ }
            }

            /// The class that decides the exit status.
            pub const fn class(self) -> Class {
                match self { $(Code::$name => Class::$class,)+ }
            }

            /// Who can mend it.
            pub const fn blame(self) -> Blame {
                match self { $(Code::$name => Blame::$blame,)+ }
            }

            /// Whether repeating the call can help.
            pub const fn retry(self) -> Retry {
                match self { $(Code::$name => Retry::$retry,)+ }
            }

            /// What to do next, for people.
            pub const fn next_action(self) -> &'static str {
                match self { $(Code::$name => $next,)+ }
            }

            /// What the code means, as in its documentation.
            pub const fn meaning(self) -> &'static str {
                match self { $(Code::$name => concat!($($doc,)+).trim_ascii_start(),)+ }
            }
        }
    };
}

codes! {
    /// The command line isn't valid.
    UsageInvalid = "usage-invalid", Usage, Caller, AfterChange, "`--help` behind the command lists its options";
    /// A file can't be read.
    FileUnreadable = "file-unreadable", Invalid, Caller, AfterChange, "check the path and its permissions";
    /// A file is larger than the limit for its kind.
    FileTooLarge = "file-too-large", Invalid, Caller, AfterChange, "split the file or raise the limit with `--max-bytes`";
    /// A file can't be written.
    FileUnwritable = "file-unwritable", Invalid, Caller, AfterChange, "check the folder and its permissions";
    /// A text isn't JSON, or isn't UTF-8.
    JsonSyntax = "json-syntax", Invalid, Caller, AfterChange, "mend the text at the place named";
    /// An object has the same key twice.
    JsonDuplicateKey = "json-duplicate-key", Invalid, Caller, AfterChange, "keep one of the two";
    /// A number can't be held without loss.
    JsonNumber = "json-number", Invalid, Caller, AfterChange, "write the number as a string";
    /// Values are nested deeper than 128 levels.
    JsonTooDeep = "json-too-deep", Invalid, Caller, AfterChange, "flatten the value";
    /// A TOML file isn't valid TOML.
    TomlSyntax = "toml-syntax", Invalid, Caller, AfterChange, "mend the text at the place named";
    /// A field that must be there is missing.
    FieldMissing = "field-missing", Invalid, Caller, AfterChange, "add the field";
    /// A field isn't known.
    FieldUnknown = "field-unknown", Invalid, Caller, AfterChange, "remove it or correct its spelling";
    /// A field has the wrong type.
    FieldType = "field-type", Invalid, Caller, AfterChange, "give a value of the type named";
    /// A field's value isn't allowed.
    FieldValue = "field-value", Invalid, Caller, AfterChange, "give an allowed value";
    /// A file's format version isn't supported.
    VersionUnsupported = "version-unsupported", Invalid, Caller, AfterChange, "use a file of a supported version";
    /// The same id stands twice.
    IdDuplicate = "id-duplicate", Invalid, Caller, AfterChange, "make the ids unique";
    /// There are more entries than the limit allows.
    TooMany = "too-many", Invalid, Caller, AfterChange, "take one session with `--session N`, or split the file";
    /// The content matches no format that can be imported.
    FormatUnknown = "format-unknown", Invalid, Caller, AfterChange, "do what the message says, or name the format with `--from`";
    /// A recording holds no call that could become a step.
    TraceEmpty = "trace-empty", Invalid, Caller, AfterChange, "record a session with successful tool calls";
    /// A recording that was to be free of secrets has some.
    SecretFound = "secret-found", Denied, Caller, AfterChange, "redact it with `redact --out FILE`, or keep a key with `--keep`";
    /// A declared dependency isn't met by an earlier successful event.
    DependencyUnmet = "dependency-unmet", Invalid, Caller, AfterChange, "correct `dependencies` of the event";
    /// A compiled workflow doesn't reproduce the recorded arguments.
    CompileMismatch = "compile-mismatch", Unexpected, Host, Never, "report it with the trace";
    /// What recordings have in common can't be compiled: it is nothing, or needs other calls.
    TracesDiffer = "traces-differ", Invalid, Caller, AfterChange, "compile recordings together that do without the missing call, or that all have it; `diff` compares two";
    /// A reference names a node, input or path that isn't there.
    ReferenceUnknown = "reference-unknown", Invalid, Caller, AfterChange, "correct the reference";
    /// Nodes depend on each other in a circle.
    DependencyCycle = "dependency-cycle", Invalid, Caller, AfterChange, "remove one edge of the circle named";
    /// A digest doesn't match the content it covers.
    DigestMismatch = "digest-mismatch", Denied, Caller, AfterChange, "compile or review again, or restore the file";
    /// An input of the workflow has no value.
    InputMissing = "input-missing", Invalid, Caller, AfterChange, "give it with `--input NAME=VALUE`";
    /// An input isn't one of the workflow's.
    InputUnknown = "input-unknown", Invalid, Caller, AfterChange, "use a name that `explain` lists";
    /// An input doesn't match its schema.
    InputInvalid = "input-invalid", Invalid, Caller, AfterChange, "give a value that matches the schema";

    /// The call doesn't belong to a verified workflow.
    CallUnverified = "call-unverified", Denied, Caller, AfterChange, "verify the workflow first";
    /// The arguments still hold the marker of a redacted secret.
    SecretUnbound = "secret-unbound", Denied, Caller, AfterChange, "compile the recording itself, or give the whole argument as an input";
    /// No registered plugin has a tool of that name.
    ToolUnknown = "tool-unknown", Invalid, Caller, AfterChange, "load the plugin that has it; `tools` lists what is there";
    /// Two plugins offer a tool of the same name.
    ToolDuplicate = "tool-duplicate", Invalid, Caller, AfterChange, "load only one of them";
    /// The tool has no contract.
    ContractMissing = "contract-missing", Denied, Policy, AfterChange, "run `review`";
    /// The tool's contract was not reviewed by a person.
    ContractUnreviewed = "contract-unreviewed", Denied, Policy, AfterChange, "run `review` and approve the contract";
    /// Handler, schema or effect differ from the reviewed contract.
    ContractDrift = "contract-drift", Denied, Policy, AfterChange, "look at the difference and review again";
    /// A policy rule denies the call.
    PolicyDenied = "policy-denied", Denied, Policy, AfterChange, "change the policy if the call is meant";
    /// The call needs an approval that isn't there.
    ApprovalRequired = "approval-required", Approval, Policy, AfterChange, "approve the request named, with `--approve ID` or an approvals file";
    /// The approval has expired.
    ApprovalExpired = "approval-expired", Approval, Policy, AfterChange, "give a new approval";
    /// The approval was used as often as it allows.
    ApprovalUsedUp = "approval-used-up", Approval, Policy, AfterChange, "give another approval, or raise its `uses`";
    /// The arguments don't match the tool's input schema.
    ArgumentsInvalid = "arguments-invalid", Invalid, Caller, AfterChange, "correct the arguments";
    /// The guard denies the call.
    GuardDenied = "guard-denied", Denied, Policy, AfterChange, "see the guard's reason";
    /// The guard wants a person to look first.
    GuardReviewRequired = "guard-review-required", Approval, Policy, AfterChange, "answer the guard's review, then run again";
    /// The guard gave no usable answer.
    GuardError = "guard-error", Denied, Policy, AfterChange, "mend the guard; without its answer nothing runs";
    /// The guard took too long.
    GuardTimeout = "guard-timeout", Denied, Policy, AfterChange, "mend the guard or raise its timeout";
    /// The audit log can't be written, so nothing runs.
    AuditUnwritable = "audit-unwritable", Denied, Host, AfterChange, "mend what the message says of the folder in `audit.dir`; without its log nothing runs";
    /// A record of the audit log isn't what was written.
    AuditChanged = "audit-changed", Denied, Caller, Never, "compare with a copy of the log; whoever could write there changed it";
    /// Records of the audit log are missing.
    AuditMissing = "audit-missing", Denied, Caller, Never, "look for the file or the copy that has them";
    /// Records of the audit log stand in another order than they were written.
    AuditOrder = "audit-order", Denied, Caller, Never, "compare with a copy of the log";
    /// The audit log has a line that wasn't written there.
    AuditInserted = "audit-inserted", Denied, Caller, Never, "compare with a copy of the log";
    /// The audit log ends in the middle of a record.
    AuditTorn = "audit-torn", Denied, Host, AfterChange, "if the writer was killed, its next start notes the torn record and goes on";

    /// The tool reported a failure.
    ToolFailed = "tool-failed", Failed, Guest, IfReadOnly, "see the tool's own code and message";
    /// The result doesn't match the tool's output schema.
    ResultInvalid = "result-invalid", Failed, Guest, IfReadOnly, "report it to the plugin's author";
    /// The structured result isn't JSON.
    ResultNotJson = "result-not-json", Failed, Guest, IfReadOnly, "report it to the plugin's author";
    /// Nested calls go deeper than the limit.
    NestedTooDeep = "nested-too-deep", Limit, Guest, Never, "call fewer tools from tools";
    /// A nested call would do more than the contract of the tool that makes it says.
    NestedEffect = "nested-effect", Denied, Guest, AfterChange, "declare the worst effect of the tools that it calls, and review it again";
    /// A call made more nested calls than the limit.
    NestedTooMany = "nested-too-many", Limit, Guest, Never, "call fewer tools from tools";

    /// A plugin file isn't a component that this host can load.
    PluginInvalid = "plugin-invalid", Failed, Guest, AfterChange, "check the name and the file; the SDK builds plugins that load";
    /// Compiling a plugin took more time or memory than the limit.
    PluginCompileLimit = "plugin-compile-limit", Limit, Guest, Never, "report it to the plugin's author";
    /// A plugin was built for a WIT version this host doesn't have.
    PluginVersion = "plugin-version", Failed, Guest, AfterChange, "rebuild the plugin or use a matching host";
    /// A plugin imports an interface that wasn't granted.
    PluginGrantMissing = "plugin-grant-missing", Denied, Policy, AfterChange, "grant what it asks for, if it should have it";
    /// Building a plugin failed.
    BuildFailed = "build-failed", Failed, Caller, AfterChange, "mend what the build says above";
    /// A server that is being recorded can't be started, or ended with a failure.
    ServerFailed = "server-failed", Failed, Upstream, AfterChange, "check the server's command and what it says above";
    /// A test case of a plugin didn't give what it expects.
    CaseFailed = "case-failed", Failed, Guest, AfterChange, "mend the plugin, or accept what was got with `--bless`";
    /// A granted directory or file can't be opened.
    GrantInvalid = "grant-invalid", Invalid, Caller, AfterChange, "correct the grant";
    /// The guest grew its memories beyond the limit.
    SandboxMemory = "sandbox-memory", Limit, Guest, Never, "raise `memory_bytes` of the limits if the tool should need it";
    /// The guest used up its fuel.
    SandboxFuel = "sandbox-fuel", Limit, Guest, Never, "raise `fuel` of the limits if the tool should need it";
    /// The guest took longer than its wall-clock limit.
    SandboxTimeout = "sandbox-timeout", Limit, Guest, IfReadOnly, "raise `wall_ms` of the limits, or `timeout_ms` of the node, if the tool should need it";
    /// The guest's call stack overflowed.
    SandboxStack = "sandbox-stack", Limit, Guest, Never, "report it to the plugin's author";
    /// The guest handed over more bytes than the limit.
    SandboxTransfer = "sandbox-transfer", Limit, Guest, Never, "ask for less, or raise `transfer_bytes` of the limits";
    /// The guest logged more than the limit.
    SandboxLog = "sandbox-log", Limit, Guest, Never, "log less, or raise `log_bytes` of the limits";
    /// The guest wrote more, or made more files, than the limit.
    SandboxWritten = "sandbox-written", Limit, Guest, Never, "raise `written_bytes` or `created_files` of the limits if the tool should need it";
    /// The guest opened more handles than the limit.
    SandboxHandles = "sandbox-handles", Limit, Guest, Never, "report it to the plugin's author";
    /// The guest made more HTTP requests, or sent or received more bytes over HTTP, than the limit.
    SandboxHttp = "sandbox-http", Limit, Guest, IfReadOnly, "ask for less, or raise `http_requests`, `http_sent_bytes` or `http_received_bytes` of the limits";
    /// The guest asked for more instances, memories or tables than the limit.
    SandboxResources = "sandbox-resources", Limit, Guest, Never, "report it to the plugin's author";
    /// The guest trapped or panicked.
    SandboxTrap = "sandbox-trap", Failed, Guest, IfReadOnly, "mend the plugin, or tell its author; `T2M_LOG=t2m_sandbox=debug` shows its own words";
    /// The sandbox has no free slot.
    SandboxBusy = "sandbox-busy", Failed, Host, AfterChange, "try again, or lower the concurrency";

    /// The run or node was out of time.
    RunTimeout = "run-timeout", Stopped, Caller, IfReadOnly, "raise the timeout with `--timeout-ms` or `run.timeout_ms`";
    /// The run was cancelled.
    RunCancelled = "run-cancelled", Stopped, Caller, IfReadOnly, "run again";
    /// A node was started and its outcome isn't known.
    InDoubt = "in-doubt", InDoubt, Host, IfReadOnly, "look whether the effect happened before running again";
    /// A journal doesn't describe a possible run.
    JournalIllegal = "journal-illegal", Unexpected, Host, Never, "restore the journal from a copy";
    /// A fault of this host; details are in its log.
    Internal = "internal", Unexpected, Host, Never, "report it with the log";
}

impl fmt::Display for Code {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl Serialize for Code {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.as_str())
    }
}

impl<'de> Deserialize<'de> for Code {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        Code::ALL
            .iter()
            .copied()
            .find(|code| code.as_str() == text)
            .ok_or_else(|| serde::de::Error::custom(format!("unknown code `{text}`")))
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn code_texts_are_unique_kebab_case_and_read_back() {
        let texts: BTreeSet<_> = Code::ALL.iter().map(|code| code.as_str()).collect();
        assert_eq!(texts.len(), Code::ALL.len());
        for code in Code::ALL {
            assert!(code.as_str().bytes().all(|b| b.is_ascii_lowercase() || b == b'-'));
            let back: Code = serde_json::from_value(serde_json::to_value(code).unwrap()).unwrap();
            assert_eq!(back, *code);
            assert!(!code.meaning().is_empty() && !code.next_action().is_empty());
        }
    }
}
