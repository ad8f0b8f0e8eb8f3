//! The process's own standard input and output as streams that don't block.
//!
//! Owns the choice by what they are: a pipe is opened anew, a socket is set up as one, anything else is read and
//! written by threads. Refuses to change how a shared pipe behaves for others.
//!
//! **Invariant:** where the client is a program (a pipe or a socket), no message passes through another thread.

use std::io;

use tokio::io::{AsyncRead, AsyncWrite};

/// Standard input.
pub(super) type Input = Box<dyn AsyncRead + Send + Unpin>;
/// Standard output.
pub(super) type Output = Box<dyn AsyncWrite + Send + Unpin>;

/// Standard input and output. Must be called on a runtime with I/O enabled, and nothing else may use them.
pub fn standard_streams() -> (Input, Output) {
    #[cfg(unix)]
    {
        (input().unwrap_or_else(|_| Box::new(tokio::io::stdin())), output().unwrap_or_else(|_| threads_out()))
    }
    #[cfg(not(unix))]
    (Box::new(tokio::io::stdin()), threads_out())
}

fn threads_out() -> Output {
    Box::new(tokio::io::stdout())
}

#[cfg(unix)]
fn input() -> io::Result<Input> {
    use std::os::fd::AsFd;
    use tokio::net::unix::pipe;

    // Opening it anew gives flags of its own: not to block must not reach whoever shares the pipe.
    if let Ok(pipe) = pipe::OpenOptions::new().open_receiver("/proc/self/fd/0") {
        return Ok(Box::new(pipe));
    }
    let own = io::stdin().as_fd().try_clone_to_owned()?;
    if let Ok(pipe) = pipe::Receiver::from_owned_fd(own) {
        return Ok(Box::new(pipe));
    }
    socket(io::stdin().as_fd().try_clone_to_owned()?).map(|socket| Box::new(socket) as Input)
}

#[cfg(unix)]
fn output() -> io::Result<Output> {
    use std::os::fd::AsFd;
    use tokio::net::unix::pipe;

    if let Ok(pipe) = pipe::OpenOptions::new().open_sender("/proc/self/fd/1") {
        return Ok(Box::new(pipe));
    }
    let own = io::stdout().as_fd().try_clone_to_owned()?;
    if let Ok(pipe) = pipe::Sender::from_owned_fd(own) {
        return Ok(Box::new(pipe));
    }
    socket(io::stdout().as_fd().try_clone_to_owned()?).map(|socket| Box::new(socket) as Output)
}

/// Some clients connect standard input and output to sockets.
#[cfg(unix)]
fn socket(own: std::os::fd::OwnedFd) -> io::Result<tokio::net::UnixStream> {
    let socket = std::os::unix::net::UnixStream::from(own);
    // Fails unless it is a socket.
    socket.local_addr()?;
    socket.set_nonblocking(true)?;
    tokio::net::UnixStream::from_std(socket)
}
