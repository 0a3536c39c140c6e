//! How programs find the proxy: variables that curl, git, package managers and most HTTP libraries
//! read, in both spellings because they disagree on which.

/// The port on a sandbox's own loopback that leads to the proxy.
pub const PROXY_PORT: u16 = 8118;

/// Never through the proxy: the sandbox's own loopback, where a server it started may listen.
const DIRECT: &str = "localhost,127.0.0.1,::1";

/// The variables for a child whose proxy is at this port of its loopback.
///
/// `ALL_PROXY` also names HTTP and not SOCKS: several Python libraries fail at once on a SOCKS
/// proxy for which they lack a module, though HTTP would have worked.
pub fn variables(port: u16) -> impl Iterator<Item = (&'static str, String)> {
    let proxy = format!("http://127.0.0.1:{port}");
    let through = [
        "HTTP_PROXY",
        "http_proxy",
        "HTTPS_PROXY",
        "https_proxy",
        "ALL_PROXY",
        "all_proxy",
    ];
    let direct = ["NO_PROXY", "no_proxy"].map(|name| (name, DIRECT.to_owned()));
    through
        .into_iter()
        .map(move |name| (name, proxy.clone()))
        .chain(direct)
        .chain([("NODE_USE_ENV_PROXY", "1".to_owned())])
}
