use std::net::SocketAddr;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::network::{self, Cidr};
use super::paths::absolute;
use super::reader::{Reader, number};
use super::tls::{TlsError, TlsFiles};

const DEFAULT_LISTEN_ADDR: SocketAddr = SocketAddr::new(std::net::IpAddr::V4(std::net::Ipv4Addr::LOCALHOST), 8080);
const DEFAULT_SHUTDOWN_GRACE_SECONDS: u64 = 25;
const MAX_SHUTDOWN_GRACE_SECONDS: u64 = 3600;

/// Where the host listens and whom it believes.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Http {
    pub listen_addr: SocketAddr,
    /// Scheme and authority, never with a slash at the end.
    pub base_url: String,
    /// Whether `base_url` was made from `listen_addr` because nobody set it.
    pub base_url_derived: bool,
    pub admin_listen_addr: Option<SocketAddr>,
    pub allowed_hosts: Vec<String>,
    pub proxy_hosts: Vec<String>,
    pub cors_origins: Vec<String>,
    pub trusted_proxies: Vec<Cidr>,
    /// Private networks that pictures of cards may be read from.
    pub picture_networks: Vec<Cidr>,
    /// What the public listener and that of the admin API speak; in clear without.
    pub tls: Option<TlsFiles>,
    pub shutdown_grace: Duration,
}

#[derive(Debug, Clone, Default, clap::Args)]
#[command(next_help_heading = "Listening")]
#[group(skip)]
pub(super) struct Args {
    /// Address and port to serve on, e.g. localhost:8080 or, for all addresses, :8080; port 0 takes a free one
    /// [default: 127.0.0.1:8080]
    #[arg(long, env, value_name = "ADDR")]
    listen_addr: Option<String>,
    /// Scheme and host that clients use, without a path, e.g. https://shop.example.com
    /// [default: http://<LISTEN_ADDR>, https:// with TLS_CERT]
    #[arg(long, env, value_name = "URL")]
    base_url: Option<String>,
    /// A listener of its own for the admin API, Admin UI and MCP, e.g. 127.0.0.1:9090 [default: none]
    #[arg(long, env, value_name = "ADDR")]
    admin_listen_addr: Option<String>,
    /// Host names, besides that of BASE_URL, that requests may carry, e.g. shop.internal,10.0.0.5:8080
    #[arg(long, env, value_name = "HOSTS")]
    allowed_hosts: Option<String>,
    /// Host names on which only the HTTP proxy answers, e.g. www.example.com
    #[arg(long, env, value_name = "HOSTS")]
    proxy_hosts: Option<String>,
    /// Origins of other web pages that may call the admin API, e.g. https://tools.example.com
    #[arg(long, env, value_name = "ORIGINS")]
    admin_cors_origins: Option<String>,
    /// Networks whose Forwarded and X-Forwarded-* headers are believed, e.g. 10.0.0.0/8,::1 [default: none]
    #[arg(long, env, value_name = "CIDRS")]
    trusted_proxies: Option<String>,
    /// Private networks that pictures of cards may be read from, e.g. 10.20.0.0/16 [default: none]
    #[arg(long, env, value_name = "CIDRS")]
    picture_networks: Option<String>,
    /// Certificate chain to serve TLS with, in PEM, e.g. /etc/cardinal/tls.crt; read again when it changes
    /// [default: none, no TLS]
    #[arg(long, env, value_name = "FILE")]
    tls_cert: Option<String>,
    /// Private key of TLS_CERT, in PEM, e.g. /etc/cardinal/tls.key
    #[arg(long, env, value_name = "FILE")]
    tls_key: Option<String>,
    /// Seconds that running requests get when the host is asked to stop, e.g. 10 [default: 25]
    #[arg(long, env, value_name = "SECONDS")]
    shutdown_grace_seconds: Option<String>,
}

impl Http {
    pub(super) fn read(args: &Args, reader: &mut Reader) -> Http {
        let listen_addr = reader.value("LISTEN_ADDR", &args.listen_addr, DEFAULT_LISTEN_ADDR, network::socket_address);
        let base_url = reader.optional("BASE_URL", &args.base_url, network::base_url);
        let grace = reader.value(
            "SHUTDOWN_GRACE_SECONDS",
            &args.shutdown_grace_seconds,
            DEFAULT_SHUTDOWN_GRACE_SECONDS,
            number(0..=MAX_SHUTDOWN_GRACE_SECONDS),
        );
        let tls = read_tls(args, reader);
        let proxy_hosts = reader.list("PROXY_HOSTS", &args.proxy_hosts, network::host_name);
        let base_url_derived = base_url.is_none();
        let base_url = base_url.unwrap_or_else(|| derived_base_url(listen_addr, tls.is_some()));
        refuse_own_host(&proxy_hosts, &base_url, reader);
        Http {
            listen_addr,
            base_url_derived,
            base_url,
            admin_listen_addr: reader.optional("ADMIN_LISTEN_ADDR", &args.admin_listen_addr, network::socket_address),
            allowed_hosts: reader.list("ALLOWED_HOSTS", &args.allowed_hosts, network::host_name),
            proxy_hosts,
            cors_origins: reader.list("ADMIN_CORS_ORIGINS", &args.admin_cors_origins, network::origin),
            trusted_proxies: reader.list("TRUSTED_PROXIES", &args.trusted_proxies, str::parse),
            picture_networks: reader.list("PICTURE_NETWORKS", &args.picture_networks, str::parse),
            tls,
            shutdown_grace: Duration::from_secs(grace),
        }
    }

    /// Takes the address that was really bound: port 0 becomes a port, and a base URL nobody set follows it.
    pub fn bound(&mut self, address: SocketAddr) {
        self.listen_addr = address;
        if self.base_url_derived {
            self.base_url = derived_base_url(address, self.tls.is_some());
        }
    }
}

fn derived_base_url(address: SocketAddr, is_encrypted: bool) -> String {
    let scheme = if is_encrypted { "https" } else { "http" };
    format!("{scheme}://{address}")
}

/// On its own host a proxied page would share the Admin UI's origin, or hide it.
fn refuse_own_host(proxy_hosts: &[String], base_url: &str, reader: &mut Reader) {
    let authority = base_url.split_once("://").map_or(base_url, |(_, authority)| authority);
    for host in proxy_hosts {
        let covers =
            host == authority || authority.strip_prefix(host.as_str()).is_some_and(|rest| rest.starts_with(':'));
        if covers {
            reader.fault("PROXY_HOSTS", format!("{host:?} is the host of BASE_URL; proxied pages need another one"));
        }
    }
}

/// Serving in clear while the operator believes in TLS would be worse than not starting.
fn read_tls(args: &Args, reader: &mut Reader) -> Option<TlsFiles> {
    let cert = reader.optional("TLS_CERT", &args.tls_cert, |text| absolute(text));
    let key = reader.optional("TLS_KEY", &args.tls_key, |text| absolute(text));
    let files = match (cert, key) {
        (Some(cert), Some(key)) => TlsFiles { cert, key },
        (Some(_), None) => {
            reader.fault("TLS_KEY", "TLS_CERT is set, so this must name the file with its private key");
            return None;
        }
        (None, Some(_)) => {
            reader.fault("TLS_CERT", "TLS_KEY is set, so this must name the file with its certificate chain");
            return None;
        }
        (None, None) => return None,
    };
    match files.read().and_then(|pair| pair.server_config()) {
        Ok(_) => Some(files),
        Err(TlsError { setting, problem }) => {
            let file = if setting == "TLS_CERT" { &files.cert } else { &files.key };
            reader.fault(setting, format!("{} {problem}", file.display()));
            None
        }
    }
}
