//! What a mount does, for Prometheus: `-o metrics=ADDRESS` has the daemon answer GET /metrics
//! there.

mod http;
mod server;
mod text;

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::str::FromStr;

use crate::output::quoted;

pub use server::Server;
pub use text::text;

/// Where metrics are served.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Address {
    /// A UNIX socket.
    Socket(PathBuf),
    /// A TCP address.
    Tcp(SocketAddr),
}

impl std::fmt::Display for Address {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Address::Socket(path) => path.display().fmt(f),
            Address::Tcp(address) => address.fmt(f),
        }
    }
}

/// A path has a slash in it. A port by itself is one of the loopback interface; any other interface
/// must be given by its number, so that nobody is let in by what a name happens to resolve to.
impl FromStr for Address {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if text.contains('/') {
            return Ok(Address::Socket(text.into()));
        }
        let loopback = IpAddr::V4(Ipv4Addr::LOCALHOST);
        let port = text.strip_prefix("localhost").unwrap_or(text);
        let port = port.strip_prefix(':').unwrap_or(if port == text { text } else { "" });
        let address = port
            .parse()
            .map(|port| SocketAddr::new(loopback, port))
            .ok()
            .or_else(|| text.parse().ok());
        address.filter(|address| address.port() > 0).map(Address::Tcp).ok_or_else(|| {
            format!(
                "{} is neither a path with a slash in it, nor PORT, localhost:PORT or NUMBERS:PORT",
                quoted(text)
            )
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ports_are_local_unless_an_interface_is_given() {
        let tcp = |text: &str| Ok(Address::Tcp(text.parse().unwrap()));
        for (text, expected) in [
            ("/run/terrace.sock", Ok(Address::Socket("/run/terrace.sock".into()))),
            ("./sock", Ok(Address::Socket("./sock".into()))),
            ("9464", tcp("127.0.0.1:9464")),
            (":9464", tcp("127.0.0.1:9464")),
            ("localhost:9464", tcp("127.0.0.1:9464")),
            ("[::1]:9464", tcp("[::1]:9464")),
            ("0.0.0.0:80", tcp("0.0.0.0:80")),
        ] {
            assert_eq!(text.parse::<Address>(), expected, "{text}");
        }
        for text in [
            "sock",
            "example.org:80",
            "localhost",
            "localhost80",
            "0",
            ":0",
            "65536",
            "127.0.0.1",
            "",
        ] {
            assert!(text.parse::<Address>().is_err(), "{text}");
        }
    }
}
