//! The way out of this machine.
//!
//! Owns the port that names and connections go through, and the real one. Refuses to choose: it resolves what it
//! is told to and connects to the very address that was checked.
//!
//! **Invariant:** nothing else of this crate looks a name up or opens a connection.

use std::io;
use std::net::{IpAddr, SocketAddr};

use t2m_core::dispatch::BoxFuture;
use tokio::net::{TcpStream, lookup_host};

/// Names and connections. A test has one of its own.
pub trait Network: Send + Sync {
    /// Looks a name up, once for each request.
    fn resolve<'a>(&'a self, name: &'a str) -> BoxFuture<'a, io::Result<Vec<IpAddr>>>;

    /// Connects to an address that was checked.
    fn connect(&self, address: SocketAddr) -> BoxFuture<'_, io::Result<TcpStream>>;
}

/// The resolver and the network of this machine.
#[derive(Debug, Clone, Copy, Default)]
pub struct SystemNetwork;

impl Network for SystemNetwork {
    fn resolve<'a>(&'a self, name: &'a str) -> BoxFuture<'a, io::Result<Vec<IpAddr>>> {
        Box::pin(async move { Ok(lookup_host((name, 0)).await?.map(|found| found.ip()).collect()) })
    }

    fn connect(&self, address: SocketAddr) -> BoxFuture<'_, io::Result<TcpStream>> {
        Box::pin(TcpStream::connect(address))
    }
}
