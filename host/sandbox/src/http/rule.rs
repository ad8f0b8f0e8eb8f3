//! Where requests may go: `[METHOD[,METHOD] ]SCHEME://HOST[:PORT][ private]`.
//!
//! Owns the text form, what a rule covers, and the meeting of two rules. Refuses paths and user names: what a
//! server does with them isn't known here.
//!
//! | part | forms |
//! |---|---|
//! | methods | of `GET`, `HEAD`, `OPTIONS`, `POST`, `PUT`, `PATCH`, `DELETE`; all of them if left out |
//! | scheme | `https` or `http` |
//! | host | a name, `*.NAME` for every name below it, `*` for every host, an IP address |
//! | port | that of the scheme if left out, a number, `*` for every port |
//!
//! A name leads to addresses of the Internet alone. `localhost` leads to this machine, an IP address that is
//! spelled out to itself, and a rule with `private` to private networks and this machine as well.
//!
//! **Invariant:** which addresses a rule leads to is decided by what the operator wrote, never by what a plugin
//! asks for.

use std::fmt;
use std::net::IpAddr;
use std::str::FromStr;

use t2m_core::code::Code;
use t2m_core::effect::Effect;
use url::Host;

use super::address::{Kind, kind};
use crate::error::SandboxError;

/// Methods that a rule can name, the harmless ones first. `CONNECT` and `TRACE` are not among them.
const METHODS: [&str; 7] = ["GET", "HEAD", "OPTIONS", "POST", "PUT", "PATCH", "DELETE"];

/// How many of [`METHODS`] only look.
const SAFE: usize = 3;

/// Some of [`METHODS`], one bit each.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Methods(u8);

impl Methods {
    const ALL: Methods = Methods((1 << METHODS.len()) - 1);

    /// What a call of this effect may do, whatever the rules say.
    pub(crate) fn of_effect(effect: Effect) -> Methods {
        match effect {
            Effect::Pure => Methods(0),
            Effect::Read => Methods((1 << SAFE) - 1),
            _ => Methods::ALL,
        }
    }

    /// Whether a method is among them.
    pub(crate) fn contain(self, method: &str) -> bool {
        METHODS.iter().position(|known| *known == method).is_some_and(|at| self.0 & (1 << at) != 0)
    }

    fn both(self, other: Methods) -> Methods {
        Methods(self.0 & other.0)
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Scheme {
    Http,
    Https,
}

impl Scheme {
    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Scheme::Http => "http",
            Scheme::Https => "https",
        }
    }

    /// The port that a URL without one means.
    pub(crate) fn port(self) -> u16 {
        match self {
            Scheme::Http => 80,
            Scheme::Https => 443,
        }
    }
}

#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
enum Pattern {
    Any,
    /// Every name that ends in this, which begins with a dot.
    Below(String),
    Name(String),
    Address(IpAddr),
}

impl Pattern {
    fn covers(&self, host: &Host<String>) -> bool {
        match (self, host) {
            (Pattern::Any, _) => true,
            (Pattern::Below(end), Host::Domain(name)) => name.ends_with(end.as_str()),
            (Pattern::Name(own), Host::Domain(name)) => own == name,
            (Pattern::Address(own), Host::Ipv4(address)) => *own == IpAddr::V4(*address),
            (Pattern::Address(own), Host::Ipv6(address)) => *own == IpAddr::V6(*address),
            _ => false,
        }
    }

    /// What both cover: of two patterns that meet, one lies within the other.
    fn both(&self, other: &Pattern) -> Option<Pattern> {
        let within = |inner: &Pattern, outer: &Pattern| match (inner, outer) {
            (_, Pattern::Any) => true,
            (Pattern::Below(name) | Pattern::Name(name), Pattern::Below(end)) => name.ends_with(end.as_str()),
            (inner, outer) => inner == outer,
        };
        if within(self, other) {
            Some(self.clone())
        } else if within(other, self) {
            Some(other.clone())
        } else {
            None
        }
    }
}

/// Which addresses a name may lead to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Reach {
    Public,
    Loopback,
    /// The address that the rule spells out.
    Spelled,
    Private,
}

/// One place that a plugin may send requests to.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct HostRule {
    methods: Methods,
    scheme: Scheme,
    host: Pattern,
    /// Nothing stands for every port.
    port: Option<u16>,
    reach: Reach,
}

impl HostRule {
    /// What is left of this rule, which the operator wrote, for a plugin that asks for another one.
    pub fn asked_by(&self, asked: &HostRule) -> Option<HostRule> {
        let port = match (self.port, asked.port) {
            (port, None) | (None, port) => port,
            (own, other) if own == other => own,
            _ => return None,
        };
        let methods = self.methods.both(asked.methods);
        if self.scheme != asked.scheme || methods == Methods(0) {
            return None;
        }
        let host = self.host.both(&asked.host)?;
        Some(HostRule { methods, scheme: self.scheme, host, port, reach: self.reach })
    }

    /// Whether what is sent there goes over the Internet unencrypted.
    pub(super) fn is_open_to_all(&self) -> bool {
        let inside = match (&self.host, self.reach) {
            (Pattern::Address(address), _) => kind(*address) != Kind::Public,
            (_, Reach::Loopback) => true,
            _ => false,
        };
        self.scheme == Scheme::Http && !inside
    }

    /// Whether a request with this method to this place is covered, wherever its name leads.
    pub(crate) fn covers(&self, method: &str, scheme: Scheme, host: &Host<String>, port: u16) -> bool {
        self.methods.contain(method)
            && self.scheme == scheme
            && self.port.is_none_or(|own| own == port)
            && self.host.covers(host)
    }

    /// Whether a covered request may go to this address.
    pub(crate) fn leads_to(&self, address: IpAddr) -> bool {
        match (self.reach, kind(address)) {
            (_, Kind::Nowhere) => false,
            (Reach::Spelled, _) => self.host == Pattern::Address(address),
            (Reach::Public | Reach::Private, Kind::Public) => true,
            (Reach::Loopback | Reach::Private, Kind::Loopback) | (Reach::Private, Kind::Private) => true,
            _ => false,
        }
    }
}

impl FromStr for HostRule {
    type Err = SandboxError;

    fn from_str(text: &str) -> Result<HostRule, SandboxError> {
        read(text).map_err(|problem| {
            let message = format!(
                "`{text}` {problem}; write `[METHOD,... ]SCHEME://HOST[:PORT][ private]`, such as `GET https://*.example.com`"
            );
            SandboxError::new(Code::GrantInvalid, message)
        })
    }
}

fn read(text: &str) -> Result<HostRule, String> {
    let (rest, private) = match text.strip_suffix(" private") {
        Some(rest) => (rest, true),
        None => (text, false),
    };
    let (methods, url) = match rest.split_once(' ') {
        Some((methods, url)) => (read_methods(methods)?, url),
        None => (Methods::ALL, rest),
    };
    let Some((scheme, place)) = url.split_once("://") else { return Err("has no scheme".into()) };
    let scheme = match scheme {
        "http" => Scheme::Http,
        "https" => Scheme::Https,
        other => return Err(format!("has the scheme `{other}`; there are `http` and `https`")),
    };
    if place.contains(['/', '?', '#']) {
        return Err("names a path, and a rule covers a whole host".into());
    }
    if place.contains(['@', ' ', '\\', '%']) {
        return Err("holds a character that no host has".into());
    }
    let (host, port) = match place.rsplit_once(':') {
        Some((host, port)) if !port.contains(']') => (host, read_port(port)?),
        _ => (place, Some(scheme.port())),
    };
    let host = read_host(host)?;
    let reach = match &host {
        Pattern::Address(_) => Reach::Spelled,
        _ if private => Reach::Private,
        Pattern::Name(name) if name == "localhost" => Reach::Loopback,
        _ => Reach::Public,
    };
    Ok(HostRule { methods, scheme, host, port, reach })
}

fn read_methods(text: &str) -> Result<Methods, String> {
    let mut bits = 0;
    for method in text.split(',') {
        match METHODS.iter().position(|known| *known == method) {
            Some(at) => bits |= 1 << at,
            None => return Err(format!("has the method `{method}`; there are {}", METHODS.join(", "))),
        }
    }
    Ok(Methods(bits))
}

fn read_port(text: &str) -> Result<Option<u16>, String> {
    match text.parse::<u16>() {
        _ if text == "*" => Ok(None),
        Ok(port) if port > 0 && text.bytes().all(|byte| byte.is_ascii_digit()) => Ok(Some(port)),
        _ => Err(format!("has the port `{text}`; there are 1 to 65535 and `*`")),
    }
}

fn read_host(text: &str) -> Result<Pattern, String> {
    if text == "*" {
        return Ok(Pattern::Any);
    }
    let (name, below) = match text.strip_prefix("*.") {
        Some(name) => (name, true),
        None => (text, false),
    };
    if name.contains('*') {
        return Err("has a `*` that isn't the first part of its host".into());
    }
    match parse_host(name) {
        Some(Host::Domain(name)) if below => Ok(Pattern::Below(format!(".{name}"))),
        Some(Host::Domain(name)) => Ok(Pattern::Name(name)),
        Some(_) if below => Err("has an IP address behind `*.`".into()),
        Some(Host::Ipv4(address)) => read_address(address.into()),
        Some(Host::Ipv6(address)) => read_address(address.into()),
        None => Err(format!("has the host `{name}`, which is none")),
    }
}

fn read_address(address: IpAddr) -> Result<Pattern, String> {
    match kind(address) {
        Kind::Nowhere => Err("has an address that stands for no single host".into()),
        _ => Ok(Pattern::Address(address)),
    }
}

/// A host in its canonical form: lower case, IDN as ASCII, every notation of an IPv4 address as that address. A
/// name that ends in a dot is none: it could pass for another one than it is.
pub(crate) fn parse_host(text: &str) -> Option<Host<String>> {
    let host = Host::parse(text).ok()?;
    match &host {
        Host::Domain(name) if name.is_empty() || name.ends_with('.') || name.starts_with('.') => None,
        Host::Domain(name) if name.len() > 253 || name.split('.').any(|label| label.len() > 63) => None,
        _ => Some(host),
    }
}

impl fmt::Display for HostRule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.methods != Methods::ALL {
            let names: Vec<_> = METHODS.into_iter().filter(|method| self.methods.contain(method)).collect();
            write!(f, "{} ", names.join(","))?;
        }
        write!(f, "{}://", self.scheme.as_str())?;
        match &self.host {
            Pattern::Any => write!(f, "*")?,
            Pattern::Below(end) => write!(f, "*{end}")?,
            Pattern::Name(name) => write!(f, "{name}")?,
            Pattern::Address(IpAddr::V4(address)) => write!(f, "{address}")?,
            Pattern::Address(IpAddr::V6(address)) => write!(f, "[{address}]")?,
        }
        match self.port {
            None => write!(f, ":*")?,
            Some(port) if port == self.scheme.port() => {}
            Some(port) => write!(f, ":{port}")?,
        }
        if self.reach == Reach::Private { f.write_str(" private") } else { Ok(()) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rule(text: &str) -> HostRule {
        text.parse().unwrap()
    }

    fn covers(rule_text: &str, method: &str, url: &str) -> bool {
        let url = url::Url::parse(url).unwrap();
        let scheme = if url.scheme() == "https" { Scheme::Https } else { Scheme::Http };
        let host = url.host().unwrap().to_owned();
        rule(rule_text).covers(method, scheme, &host, url.port_or_known_default().unwrap())
    }

    /// P05: a rule says scheme, host, port and methods, and every other request is outside.
    #[test]
    fn a_rule_covers_what_it_says() {
        let table = [
            ("https://api.example.com", "DELETE", "https://api.example.com/x", true),
            ("https://api.example.com", "GET", "https://api.example.com:444/", false),
            ("https://api.example.com", "GET", "http://api.example.com:443/", false),
            ("https://api.example.com", "CONNECT", "https://api.example.com/", false),
            ("https://api.example.com", "GET", "https://xapi.example.com/", false),
            ("https://api.example.com", "GET", "https://api.example.com.evil.net/", false),
            ("GET https://*.example.com:8443", "GET", "https://a.b.example.com:8443/", true),
            ("GET https://*.example.com:8443", "POST", "https://a.example.com:8443/", false),
            ("GET https://*.example.com:8443", "GET", "https://example.com:8443/", false),
            ("GET https://*.example.com", "GET", "https://notexample.com/", false),
            ("http://localhost:8080", "PUT", "http://localhost:8080/", true),
            ("http://127.0.0.1", "GET", "http://0x7f000001/", true),
            ("http://*:*", "GET", "http://1.2.3.4:99/", true),
            ("http://[::1]:80", "GET", "http://[0:0::1]/", true),
            ("https://bücher.example", "GET", "https://xn--bcher-kva.example/", true),
        ];
        for (text, method, url, expected) in table {
            assert_eq!(covers(text, method, url), expected, "{text}: {method} {url}");
        }
    }

    /// P05: private addresses need their own word.
    #[test]
    fn a_rule_leads_to_private_addresses_only_if_it_says_so() {
        let table = [
            ("https://a.example", "1.1.1.1", true),
            ("https://a.example", "127.0.0.1", false),
            ("https://*", "10.0.0.1", false),
            ("https://a.example private", "10.0.0.1", true),
            ("https://a.example private", "127.0.0.1", true),
            ("https://a.example private", "169.254.169.254", false),
            ("https://a.example private", "::ffff:10.0.0.1", false),
            ("https://* private", "0.0.0.0", false),
            ("http://localhost", "127.0.0.1", true),
            ("http://localhost", "::1", true),
            ("http://localhost", "1.1.1.1", false),
            ("http://169.254.169.254", "169.254.169.254", true),
            ("http://127.0.0.1", "127.0.0.1", true),
            ("http://127.0.0.1", "127.0.0.2", false),
        ];
        for (text, address, expected) in table {
            assert_eq!(rule(text).leads_to(address.parse().unwrap()), expected, "{text}: {address}");
        }
    }

    /// P03: granted is what is asked for and allowed, and only the operator's words open private networks.
    #[test]
    fn two_rules_meet_in_the_smaller() {
        let table = [
            ("https://api.example.com", "https://*", Some("https://api.example.com")),
            ("https://*.example.com", "GET https://*:*", Some("GET https://*.example.com")),
            ("https://*", "GET,POST https://a.example", Some("GET,POST https://a.example")),
            ("https://*.a.example", "https://*.example", Some("https://*.a.example")),
            ("https://*.example", "https://*.a.example", Some("https://*.a.example")),
            ("https://*.a.example", "https://b.example", None),
            ("https://a.example", "http://*", None),
            ("https://a.example:8443", "https://a.example", None),
            ("GET https://a.example", "POST https://a.example", None),
            ("http://localhost:8080", "http://*:*", Some("http://localhost:8080")),
        ];
        for (allowed, asked, expected) in table {
            let both = rule(allowed).asked_by(&rule(asked)).map(|rule| rule.to_string());
            assert_eq!(both.as_deref(), expected, "{allowed} and {asked}");
        }
        let asked = rule("http://localhost:*");
        let both = rule("http://*:*").asked_by(&asked).unwrap();
        assert!(!both.leads_to("127.0.0.1".parse().unwrap()), "the plugin can't name localhost for itself");
        let both = rule("http://*:*").asked_by(&rule("http://127.0.0.1:*")).unwrap();
        assert!(!both.leads_to("127.0.0.1".parse().unwrap()));
    }

    /// P05: what isn't a rule is refused with what is wrong.
    #[test]
    fn malformed_rules_are_refused_with_the_reason() {
        for (text, word) in [
            ("", "no scheme"),
            ("api.example.com", "no scheme"),
            ("ftp://a.example", "scheme `ftp`"),
            ("https://a.example/path", "path"),
            ("https://user@a.example", "character"),
            ("https://a.example:0", "port `0`"),
            ("https://a.example:+1", "port"),
            ("https://a.example:99999", "port"),
            ("https://a.*.example", "`*`"),
            ("https://*.1.2.3.4", "IP address"),
            ("https://a.example.", "which is none"),
            ("https://", "which is none"),
            ("https://a b.example", "method `https://a`"),
            ("CONNECT https://a.example", "method `CONNECT`"),
            ("get https://a.example", "method `get`"),
            ("http://0.0.0.0", "no single host"),
            ("http://[ff02::1]", "no single host"),
            ("http://a%2eb.example", "character"),
        ] {
            let error = text.parse::<HostRule>().unwrap_err();
            assert_eq!(error.code(), Code::GrantInvalid, "{text}");
            assert!(error.message().contains(word), "{text}: {}", error.message());
        }
    }

    /// P05: a rule's text reads back to the rule.
    #[test]
    fn a_rule_prints_as_it_is_written() {
        for text in
            ["https://a.example", "GET,HEAD http://*:*", "http://[::1]:8080", "https://*.a.example private"]
        {
            assert_eq!(rule(text).to_string(), text);
        }
    }

    /// P05: the effect of the contract narrows the methods.
    #[test]
    fn a_call_sends_no_more_than_its_effect() {
        let may = |effect, method| Methods::of_effect(effect).contain(method);
        assert!(!may(Effect::Pure, "GET"));
        assert!(may(Effect::Read, "GET") && may(Effect::Read, "HEAD") && may(Effect::Read, "OPTIONS"));
        assert!(!may(Effect::Read, "POST") && !may(Effect::Read, "DELETE"));
        assert!(may(Effect::Write, "POST") && may(Effect::ExternalSideEffect, "DELETE"));
        assert!(!may(Effect::Write, "TRACE") && !may(Effect::Write, "get"));
    }
}
