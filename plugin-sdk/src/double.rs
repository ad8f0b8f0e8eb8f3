//! Stands in for the host on native targets.
//!
//! Owns what a test scripted and what the plugin did. Refuses to run real tools.
//!
//! INVARIANT: state belongs to one thread, so tests that run side by side don't meet.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::mem;
use std::time::Duration;

use serde_json::Value;

use crate::context::Context;
use crate::http::{Request, Response};
use crate::log::Level;
use crate::url::Url;
use crate::{Error, Outcome};

pub(crate) type Script = Box<dyn FnMut(Value) -> Result<Outcome, Error>>;
pub(crate) type Server = Box<dyn FnMut(&Request) -> Result<Response, Error>>;

/// One host, seen by one plugin.
pub(crate) struct Host {
    pub(crate) context: Context,
    pub(crate) messages: Vec<(Level, String)>,
    pub(crate) scripts: BTreeMap<String, Script>,
    pub(crate) calls: Vec<(String, Value)>,
    pub(crate) server: Option<Server>,
    pub(crate) secrets: Vec<String>,
}

impl Default for Host {
    fn default() -> Self {
        Self {
            context: Context {
                run_id: "test-run".to_owned(),
                node_id: "test-node".to_owned(),
                attempt: 1,
                idempotency_key: "test-run/test-node".to_owned(),
                time_left: Duration::from_secs(30),
            },
            messages: Vec::new(),
            scripts: BTreeMap::new(),
            calls: Vec::new(),
            server: None,
            secrets: Vec::new(),
        }
    }
}

thread_local! {
    static HOST: RefCell<Host> = RefCell::new(Host::default());
}

/// Exchanges this thread's host for another.
pub(crate) fn swap(host: &mut Host) {
    HOST.with_borrow_mut(|current| mem::swap(current, host));
}

pub(crate) fn log(level: Level, message: &str) {
    HOST.with_borrow_mut(|host| host.messages.push((level, message.to_owned())));
}

pub(crate) fn context() -> Context {
    HOST.with_borrow(|host| host.context.clone())
}

pub(crate) fn call_tool(name: &str, json: &str) -> Result<Outcome, Error> {
    let arguments: Value = serde_json::from_str(json)?;
    // Taken out while it runs: a script may use the host as well.
    let script = HOST.with_borrow_mut(|host| {
        host.calls.push((name.to_owned(), arguments.clone()));
        host.scripts.remove(name)
    });
    let Some(mut script) = script else {
        return Err(Error::new("unknown-tool", format!("the test scripted no tool `{name}`")));
    };
    let outcome = script(arguments);
    HOST.with_borrow_mut(|host| host.scripts.insert(name.to_owned(), script));
    outcome
}

pub(crate) fn send(request: &Request, url: &Url) -> Result<Response, Error> {
    // Taken out while it runs, as a script is.
    let Some(mut server) = HOST.with_borrow_mut(|host| host.server.take()) else {
        return Err(Error::new("request-denied", format!("the test has no server for `{url}`")));
    };
    let response = server(request);
    HOST.with_borrow_mut(|host| host.server = Some(server));
    let mut response = response?;
    response.url = url.to_string();
    if response.body.len() > request.most() {
        response.body.truncate(request.most());
        response.truncated = true;
    }
    Ok(response)
}

pub(crate) fn secret(name: &str) -> Option<String> {
    let lent = HOST.with_borrow(|host| host.secrets.iter().any(|secret| secret == name));
    lent.then(|| format!("t2m-secret-{name}"))
}
