//! What the settings say together, once each is well formed by itself.

use std::net::{SocketAddr, TcpListener};

use super::finding::Finding;
use cardinal_base::config::{self, Config, Fault, SettingsError};

const MIN_GOOD_PASSWORD_BYTES: usize = 8;

/// Every setting that cannot be used.
pub fn bad(settings: &SettingsError) -> Vec<Finding> {
    let to_finding = |Fault { setting, problem }: &Fault| {
        Finding::error("setting-invalid", setting, "A setting is invalid; `cardinal serve` would not start.")
            .found(problem)
            .fix(format!("Correct {setting}; `cardinal serve --help` shows how each setting is written."))
    };
    settings.0.iter().map(to_finding).collect()
}

/// What is well formed and yet not what an operator would want.
pub fn check(config: &Config) -> Vec<Finding> {
    let mut found = vec![Finding::ok("settings-valid", "settings", "All settings are valid.")];
    let (http, auth) = (&config.http, &config.auth);
    let short = auth.bootstrap_password.as_ref().is_some_and(|it| it.expose().len() < MIN_GOOD_PASSWORD_BYTES);
    if short {
        found.push(
            Finding::warning(
                "bootstrap-password-short",
                "ADMIN_BOOTSTRAP_PASSWORD",
                "The first user's password is easily guessed.",
            )
            .expected(format!("{MIN_GOOD_PASSWORD_BYTES} bytes or more"))
            .fix("Choose a longer one before the first start, or change it after the first login."),
        );
    }
    let in_clear = http.base_url.starts_with("http://");
    if in_clear && !is_loopback(&http.base_url) {
        found.push(
            Finding::warning("no-encryption", "BASE_URL", "Passwords and keys travel unencrypted.")
                .found(&http.base_url)
                .expected("an https address")
                .fix(
                    "Set TLS_CERT and TLS_KEY, or put a TLS proxy in front of the host; name the https address in \
                    BASE_URL.",
                ),
        );
    }
    if !in_clear && http.tls.is_none() && http.trusted_proxies.is_empty() {
        found.push(
            Finding::warning(
                "trusted-proxies-unset",
                "TRUSTED_PROXIES",
                "All clients seem to come from the TLS proxy's address.",
            )
            .found("BASE_URL is https, TRUSTED_PROXIES is empty")
            .fix(
                "Put the proxy's address in TRUSTED_PROXIES, so that limits, login throttling and the audit log \
                see the client's address.",
            ),
        );
    }
    found
}

fn is_loopback(base_url: &str) -> bool {
    url::Url::parse(base_url).is_ok_and(|url| config::is_loopback(&url))
}

/// Whether the addresses of a host that is stopped are free.
pub fn addresses(config: &Config) -> Vec<Finding> {
    let addresses = [
        ("LISTEN_ADDR", Some(config.http.listen_addr)),
        ("ADMIN_LISTEN_ADDR", config.http.admin_listen_addr),
        ("METRICS_ADDR", config.observe.metrics_addr),
    ];
    addresses.into_iter().filter_map(|(setting, address)| Some(address_free(setting, address?))).collect()
}

fn address_free(setting: &str, address: SocketAddr) -> Finding {
    match TcpListener::bind(address) {
        Ok(_) => Finding::ok("address-free", setting, format!("{address} is free to listen on.")),
        Err(error) => Finding::error("address-in-use", setting, "The host cannot listen on this address.")
            .found(format!("{address}: {error}"))
            .expected("an unused address of this machine")
            .fix(format!("Stop what listens there, or choose another {setting}.")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_that_somebody_has_is_told() {
        let taken = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = taken.local_addr().unwrap();
        assert_eq!(address_free("LISTEN_ADDR", address).code, "address-in-use");
        drop(taken);
        assert_eq!(address_free("LISTEN_ADDR", address).code, "address-free");
    }

    #[test]
    fn loopback_is_known_in_every_form() {
        for own in ["http://127.0.0.1:8080", "http://[::1]:8080", "http://localhost", "http://x.localhost:1"] {
            assert!(is_loopback(own), "{own}");
        }
        assert!(!is_loopback("http://shop.example.com") && !is_loopback("http://10.0.0.1"));
    }
}
