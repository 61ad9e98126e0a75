//! Telling a service manager that the mount is ready, as `sd_notify(3)` does.
//!
//! Layout: lines `NAME=VALUE` in one datagram to the socket that `NOTIFY_SOCKET` names: a path, or
//! an abstract name behind `@`.

use std::io;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixDatagram};

/// Says that the mount is ready and how it is served. Without a manager that listens nothing
/// happens.
pub(crate) fn ready(served: &str) {
    let Some(socket) = std::env::var_os("NOTIFY_SOCKET") else {
        return;
    };
    if let Err(error) = send(&socket.to_string_lossy(), served) {
        // The manager will say that it waited in vain.
        eprintln!("uext4: tell the service manager: {error}");
    }
}

fn send(socket: &str, served: &str) -> io::Result<()> {
    let address = match socket.strip_prefix('@') {
        Some(name) => SocketAddr::from_abstract_name(name)?,
        None => SocketAddr::from_pathname(socket)?,
    };
    let pid = std::process::id();
    let text = format!("READY=1\nMAINPID={pid}\nSTATUS=Served {served}\n");
    UnixDatagram::unbound()?
        .send_to_addr(text.as_bytes(), &address)
        .map(drop)
}
