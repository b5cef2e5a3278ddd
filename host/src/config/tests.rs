use std::ffi::OsString;

use clap::{CommandFactory as _, Parser};

use super::*;

#[derive(Parser)]
struct Line {
    #[command(flatten)]
    settings: Settings,
}

fn read(flags: &[&str]) -> Result<Config, BadSettings> {
    read_with(flags, &[])
}

fn read_with(flags: &[&str], environment: &[(&str, &str)]) -> Result<Config, BadSettings> {
    let line = Line::try_parse_from(std::iter::once(&"cardinal").chain(flags)).unwrap();
    let variables = environment.iter().map(|(name, text)| (OsString::from(name), OsString::from(text)));
    Config::read_with(&line.settings, variables)
}

fn faults(flags: &[&str]) -> Vec<String> {
    read(flags).unwrap_err().0.into_iter().map(|fault| fault.setting).collect()
}

/// The settings of the public contract, in its order.
const SETTINGS: [&str; 41] = [
    "ADMIN_BOOTSTRAP_USERNAME",
    "ADMIN_BOOTSTRAP_PASSWORD",
    "ADMIN_TOKEN_TTL_HOURS",
    "ADMIN_CORS_ORIGINS",
    "LISTEN_ADDR",
    "BASE_URL",
    "ADMIN_LISTEN_ADDR",
    "PROXY_HOSTS",
    "ALLOWED_HOSTS",
    "TRUSTED_PROXIES",
    "DATA_DIR",
    "PLUGINS_DIR",
    "DATABASE_URL",
    "DATABASE_SECRET_FILE",
    "DB_PREPARED",
    "POSTGRES_BIN_DIR",
    "AUTH_URL",
    "OIDC_ISSUER",
    "OIDC_JWKS_URL",
    "OIDC_MAX_SCOPES",
    "ADMIN_TOKEN_SECRET",
    "API_KEY_RATE_PER_MINUTE",
    "PLUGIN_TRUST",
    "PLUGIN_LOCK_FILE",
    "PLUGIN_TRUST_KEYS",
    "PLUGIN_UPLOAD",
    "PLUGIN_EXECUTION",
    "PLUGIN_BREAKER",
    "MCP_CONFIRM",
    "CARD_RETENTION_DAYS",
    "AUDIT_RETENTION_DAYS",
    "PROXY_ROUTES",
    "PROXY_TIMEOUT_SECONDS",
    "PROXY_IDLE_SECONDS",
    "METRICS_ADDR",
    "LOG_FORMAT",
    "LOG_LEVEL",
    "OTEL_EXPORTER_OTLP_ENDPOINT",
    "TLS_CERT",
    "TLS_KEY",
    "SHUTDOWN_GRACE_SECONDS",
];

#[test]
fn every_setting_is_a_variable_and_a_flag_with_an_example() {
    let command = Line::command();
    let mut variables = Vec::new();
    for argument in command.get_arguments() {
        let help = argument.get_help().unwrap().to_string();
        assert!(help.contains("e.g. "), "{} has no example", argument.get_id());
        if let Some(variable) = argument.get_env() {
            let variable = variable.to_str().unwrap().to_owned();
            assert_eq!(argument.get_long().unwrap(), variable.to_lowercase().replace('_', "-"));
            variables.push(variable);
        }
    }
    for setting in SETTINGS {
        assert!(variables.iter().any(|variable| variable == setting), "{setting} is missing");
    }
    assert_eq!(variables.len(), SETTINGS.len(), "{variables:?}");
    assert!(command.get_arguments().any(|argument| argument.get_long() == Some("plugin-settings")));
}

#[test]
fn every_setting_can_be_looked_at_and_no_secret() {
    let secret = "hunter2-hunter2-hunter2-hunter2-hunter2";
    let (password, token) = (format!("--admin-bootstrap-password={secret}"), format!("--admin-token-secret={secret}"));
    let url = format!("--database-url=postgres://u:{secret}@h/d");
    let plugin = format!(r#"--plugin-settings=supplier={{"key": "{secret}"}}"#);
    let shown = read(&[&password, &token, &url, &plugin]).unwrap().in_force();
    for setting in SETTINGS {
        assert!(shown.contains_key(setting), "{setting} is not shown");
    }
    assert!(!serde_json::to_string(&shown).unwrap().contains("hunter2"));
    assert_eq!(shown["DATABASE_URL"], "***");
    assert_eq!(shown["PLUGIN_SETTINGS_SUPPLIER"], "***");
    assert_eq!(shown["LOG_LEVEL"], "info");
}

#[test]
fn nothing_set_gives_the_documented_defaults() {
    let config = read(&[]).unwrap();
    assert_eq!(config.http.listen_addr.to_string(), "127.0.0.1:8080");
    assert_eq!(config.http.base_url, "http://127.0.0.1:8080");
    assert_eq!(config.http.shutdown_grace.as_secs(), 25);
    assert_eq!(config.auth.token_ttl_hours, 24);
    assert_eq!(config.auth.key_rate_per_minute, 6000);
    assert_eq!(config.auth.oidc_max_scopes.join(" "), "mcp:use cards:read plugin:*:read plugin:*:write");
    assert_eq!((config.cards.retention_days, config.cards.audit_retention_days), (30, 365));
    assert!(config.paths.data_dir.is_absolute() && config.paths.data_dir.ends_with("var/data"));
    assert_eq!(config.plugins.lock_file, config.paths.data_dir.join("plugins.lock"));
    assert_eq!(config.plugins.trust, Trust::Record);
    assert_eq!(config.mcp.confirm, Confirm::Auto);
    assert!(config.database.prepared && config.database.url.is_none());
}

#[test]
fn an_empty_value_counts_as_not_set() {
    let config = read(&["--listen-addr", "", "--auth-url", " ", "--admin-bootstrap-password", ""]).unwrap();
    assert_eq!(config.http.listen_addr.port(), 8080);
    assert!(config.auth.auth_url.is_none() && config.auth.bootstrap_password.is_none());
}

#[test]
fn a_providers_keys_need_an_issuer_beside_them() {
    let keys = ["--oidc-jwks-url", "https://auth.example.com/jwks"];
    assert_eq!(faults(&keys), ["OIDC_JWKS_URL"]);
    for more in [["--auth-url", "https://auth.example.com"], ["--oidc-issuer", "https://auth.example.com/x"]] {
        assert!(read(&[keys, more].concat()).is_ok());
    }
}

#[test]
fn the_base_url_follows_the_bound_port_unless_it_was_set() {
    let address = "127.0.0.1:4711".parse().unwrap();
    let mut config = read(&["--listen-addr", "127.0.0.1:0"]).unwrap();
    config.http.bound(address);
    assert_eq!(config.http.base_url, "http://127.0.0.1:4711");
    let mut config = read(&["--base-url", "https://Shop.Example.com:443/"]).unwrap();
    config.http.bound(address);
    assert_eq!(config.http.base_url, "https://shop.example.com");
}

#[test]
fn every_bad_value_is_named_at_once() {
    let found =
        faults(&["--listen-addr", "nowhere", "--admin-token-ttl-hours", "0", "--proxy-routes", "/api=http://x"]);
    assert_eq!(found, ["LISTEN_ADDR", "ADMIN_TOKEN_TTL_HOURS", "PROXY_ROUTES"]);
    let shown = read(&["--listen-addr", "nowhere"]).unwrap_err().to_string();
    assert!(shown.starts_with("LISTEN_ADDR (--listen-addr): \"nowhere\" is not an address"), "{shown}");
}

#[test]
fn values_that_cannot_work_are_refused() {
    for (flag, text) in [
        ("base-url", "https://x.example/path"),
        ("base-url", "ftp://x.example"),
        ("base-url", "x.example"),
        ("base-url", "https://u:p@x.example"),
        ("admin-listen-addr", "8080"),
        ("allowed-hosts", "good.example,http://bad.example"),
        ("admin-cors-origins", "*"),
        ("admin-cors-origins", "https://x.example/page"),
        ("trusted-proxies", "10.0.0.0/40"),
        ("database-url", "mysql://u@h/d"),
        ("database-url", "postgres://localhost"),
        ("database-url", "postgres://u:p@h/d?sslmode=require"),
        ("database-secret-file", "/does/not/exist"),
        ("db-prepared", "maybe"),
        ("postgres-bin-dir", "/does/not/exist"),
        ("auth-url", "http://auth.example.com"),
        ("oidc-max-scopes", "cards:read NOT-A-SCOPE"),
        ("admin-token-secret", "short"),
        ("admin-token-ttl-hours", "8761"),
        ("api-key-rate-per-minute", "-1"),
        ("plugin-trust", "blindly"),
        ("plugin-trust", "signed"),
        ("plugin-upload", "on"),
        ("plugin-execution", "fast"),
        ("plugin-breaker", "supplier=off"),
        ("plugin-settings", "supplier=[1]"),
        ("plugin-settings", "supplier"),
        ("mcp-confirm", "never"),
        ("card-retention-days", "many"),
        ("proxy-routes", "/a=http://x,/a=http://y"),
        ("proxy-routes", "/a/../v1=http://x"),
        ("proxy-routes", "/%61=http://x"),
        ("proxy-routes", "/a=https://x"),
        ("proxy-timeout-seconds", "0"),
        ("proxy-idle-seconds", "never"),
        ("proxy-hosts", "127.0.0.1:8080"),
        ("log-format", "xml"),
        ("log-level", "inof"),
        ("log-level", "info,cardinal=loud"),
        ("otel-exporter-otlp-endpoint", "nowhere"),
        ("tls-cert", "/etc/tls.crt"),
        ("shutdown-grace-seconds", "1.5"),
    ] {
        let flag = format!("--{flag}={text}");
        assert!(read(&[&flag]).is_err(), "{flag} was taken");
    }
}

#[test]
fn a_password_of_spaces_stays_as_it_is_and_never_shows() {
    let config = read(&["--admin-bootstrap-password", " my pass "]).unwrap();
    assert_eq!(config.auth.bootstrap_password.as_ref().unwrap().expose(), " my pass ");
    assert!(!format!("{config:?}").contains("my pass"));
}

#[test]
fn a_refused_secret_is_not_repeated() {
    for (flag, text) in [
        ("--database-url", "postgres://u:hunter2@"),
        ("--admin-token-secret", "hunter2"),
        ("--plugin-settings", "supplier={\"password\": hunter2}"),
    ] {
        let shown = read(&[flag, text]).unwrap_err().to_string();
        assert!(!shown.contains("hunter2"), "{shown}");
    }
}

#[test]
fn plugin_settings_come_from_variables_and_flags() {
    let environment = [
        ("PLUGIN_SETTINGS_PRICE_WATCH", r#"{"a": 1}"#),
        ("PLUGIN_SETTINGS_SUPPLIER", r#"{"a": 1}"#),
        ("PLUGIN_SETTINGS_UNUSED", ""),
    ];
    let config = read_with(&["--plugin-settings", r#"supplier={"a": 2}"#], &environment).unwrap();
    assert_eq!(config.plugins.settings["price_watch"]["a"], 1);
    assert_eq!(config.plugins.settings["supplier"]["a"], 2);
    assert_eq!(config.plugins.settings.len(), 2);
    let refused = read_with(&[], &[("PLUGIN_SETTINGS_X", "{")]).unwrap_err().to_string();
    assert!(refused.starts_with("PLUGIN_SETTINGS_X (--plugin-settings): it is not JSON"), "{refused}");
}

#[test]
fn the_config_crosses_the_control_socket_whole() {
    let flags =
        ["--database-url", "postgres://u:p@h/d", "--trusted-proxies", "10.0.0.0/8", "--proxy-routes", "/=http://x"];
    let config = read(&flags).unwrap();
    let sent = serde_json::to_string(&config).unwrap();
    let received: Config = serde_json::from_str(&sent).unwrap();
    assert_eq!(received.database.url.as_ref().unwrap().expose(), "postgres://u:p@h/d");
    assert_eq!(serde_json::to_string(&received).unwrap(), sent);
}
