//! Readiness notification to a service manager, as `sd_notify(3)`.
//!
//! Layout: lines `NAME=VALUE` in one datagram to the socket in `NOTIFY_SOCKET`: a path, or an
//! abstract name after `@`.

use std::io;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixDatagram};

/// Connection to a waiting service manager.
pub(crate) struct Notifier(UnixDatagram);

impl Notifier {
    /// Connects to the manager, if one listens.
    pub(crate) fn connect() -> Option<Self> {
        let name = std::env::var_os("NOTIFY_SOCKET")?;
        match connect(&name.to_string_lossy()) {
            Ok(socket) => Some(Self(socket)),
            Err(error) => {
                // The manager reports its own timeout.
                eprintln!("uext4: tell the service manager: {error}");
                None
            }
        }
    }

    /// Reports that the mount is ready and how it is served.
    pub(crate) fn ready(&self, served: &str) {
        let pid = std::process::id();
        let text = format!("READY=1\nMAINPID={pid}\nSTATUS=Served {served}\n");
        if let Err(error) = self.0.send(text.as_bytes()) {
            eprintln!("uext4: tell the service manager: {error}");
        }
    }
}

fn connect(name: &str) -> io::Result<UnixDatagram> {
    let address = match name.strip_prefix('@') {
        Some(name) => SocketAddr::from_abstract_name(name)?,
        None => SocketAddr::from_pathname(name)?,
    };
    let socket = UnixDatagram::unbound()?;
    socket.connect_addr(&address)?;
    Ok(socket)
}
