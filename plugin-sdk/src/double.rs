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
use crate::kv::Refused;
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
    pub(crate) kept: BTreeMap<String, Vec<u8>>,
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
            kept: BTreeMap::new(),
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

fn with_kept<T>(key: &str, work: impl FnOnce(&mut BTreeMap<String, Vec<u8>>) -> T) -> Result<T, Refused> {
    if key.is_empty() || key.len() > 100 {
        return Err(Refused::Key);
    }
    Ok(HOST.with_borrow_mut(|host| work(&mut host.kept)))
}

pub(crate) fn kv_get(key: &str) -> Result<Option<Vec<u8>>, Refused> {
    with_kept(key, |kept| kept.get(key).cloned())
}

pub(crate) fn kv_set(key: &str, value: &[u8]) -> Result<(), Refused> {
    if value.len() > 1 << 20 {
        return Err(Refused::Value);
    }
    with_kept(key, |kept| {
        if kept.len() >= 1_000 && !kept.contains_key(key) {
            return Err(Refused::Full);
        }
        kept.insert(key.to_owned(), value.to_owned());
        Ok(())
    })?
}

pub(crate) fn kv_delete(key: &str) -> Result<bool, Refused> {
    with_kept(key, |kept| kept.remove(key).is_some())
}

pub(crate) fn kv_swap(key: &str, expected: Option<&[u8]>, value: Option<&[u8]>) -> Result<bool, Refused> {
    if kv_get(key)?.as_deref() != expected {
        return Ok(false);
    }
    match value {
        Some(value) => kv_set(key, value)?,
        None => drop(kv_delete(key)?),
    }
    Ok(true)
}

pub(crate) fn kv_keys(prefix: &str) -> Result<Vec<String>, Refused> {
    Ok(HOST.with_borrow(|host| host.kept.keys().filter(|key| key.starts_with(prefix)).cloned().collect()))
}
