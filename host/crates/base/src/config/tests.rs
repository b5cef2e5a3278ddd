use std::{ffi::OsString, os::unix::fs::PermissionsExt as _};

use clap::{CommandFactory as _, Parser};

use super::*;

#[derive(Parser)]
struct Line {
    #[command(flatten)]
    settings: Settings,
}

fn read(flags: &[&str]) -> Result<Config, SettingsError> {
    read_with(flags, &[])
}

fn read_with(flags: &[&str], environment: &[(&str, &str)]) -> Result<Config, SettingsError> {
    let line = Line::try_parse_from(std::iter::once(&"cardinal").chain(flags)).unwrap();
    let variables = environment.iter().map(|(name, text)| (OsString::from(name), OsString::from(text)));
    Config::read_with(&line.settings, variables)
}

fn faults(flags: &[&str]) -> Vec<String> {
    read(flags).unwrap_err().0.into_iter().map(|fault| fault.setting).collect()
}

/// The settings of the public contract, in its order.
const SETTINGS: [&str; 46] = [
    "ADMIN_BOOTSTRAP_USERNAME",
    "ADMIN_BOOTSTRAP_PASSWORD",
    "ADMIN_BOOTSTRAP_PASSWORD_FILE",
    "ADMIN_TOKEN_TTL_HOURS",
    "ADMIN_CORS_ORIGINS",
    "LISTEN_ADDR",
    "BASE_URL",
    "ADMIN_LISTEN_ADDR",
    "PROXY_HOSTS",
    "ALLOWED_HOSTS",
    "TRUSTED_PROXIES",
    "PICTURE_NETWORKS",
    "DATA_DIR",
    "PLUGINS_DIR",
    "DATABASE_URL",
    "DATABASE_URL_FILE",
    "DATABASE_SECRET_FILE",
    "DB_PREPARED",
    "POSTGRES_BIN_DIR",
    "AUTH_URL",
    "OIDC_ISSUER",
    "OIDC_JWKS_URL",
    "OIDC_MAX_SCOPES",
    "ADMIN_TOKEN_SECRET",
    "ADMIN_TOKEN_SECRET_FILE",
    "API_KEY_RATE_PER_MINUTE",
    "PLUGIN_TRUST",
    "PLUGIN_LOCK_FILE",
    "PLUGIN_TRUST_KEYS",
    "PLUGIN_UPLOAD",
    "PLUGIN_EXECUTION",
    "PLUGIN_BREAKER",
    "PLUGIN_NETWORKS",
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
        ("plugin-lock-file", "/does/not/exist/plugins.lock"),
        ("plugin-upload", "on"),
        ("plugin-execution", "fast"),
        ("plugin-breaker", "supplier=off"),
        ("plugin-settings", "supplier=[1]"),
        ("plugin-settings", "supplier"),
        ("plugin-settings", r#"supplier={"delay_ms":10.00000000000000000000001}"#),
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
        ("otel-exporter-otlp-endpoint", "http://user:secret@127.0.0.1:4318"),
        ("otel-exporter-otlp-endpoint", "http://127.0.0.1:4318/?token=secret"),
        ("tls-cert", concat!(env!("CARGO_MANIFEST_DIR"), "/tests/tls/other.crt.pem")), // without its key
        ("tls-key", "/nowhere/tls.key"),
        ("shutdown-grace-seconds", "1.5"),
    ] {
        let flag = format!("--{flag}={text}");
        assert!(read(&[&flag]).is_err(), "{flag} was taken");
    }
}

#[test]
fn a_host_with_a_certificate_is_https() {
    let folder = tempfile::tempdir().unwrap();
    let file = |name: &str| {
        let path = folder.path().join(name);
        std::fs::copy(format!("{}/tests/tls/{name}.pem", env!("CARGO_MANIFEST_DIR")), &path).unwrap();
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o600)).unwrap();
        path.to_str().unwrap().to_owned()
    };
    let (cert, key) = (file("other.crt"), file("other.key"));
    let config = read(&["--tls-cert", &cert, "--tls-key", &key]).unwrap();
    assert_eq!(config.http.base_url, "https://127.0.0.1:8080");
    assert!(config.secret_files().iter().any(|(setting, file)| *setting == "TLS_KEY" && file.ends_with("other.key")));
    let error = read(&["--tls-cert", &cert, "--tls-key", &file("self-signed.key")]).unwrap_err().to_string();
    assert!(
        error.starts_with("TLS_KEY (--tls-key): ") && error.contains("self-signed.key holds another key"),
        "{error}"
    );
}

#[test]
fn a_collectors_address_may_have_a_path_and_shows_no_credential() {
    let in_force = |text: &str| {
        let config = read(&["--otel-exporter-otlp-endpoint", text]).unwrap();
        config.in_force()["OTEL_EXPORTER_OTLP_ENDPOINT"].clone()
    };
    assert_eq!(in_force("http://127.0.0.1:4318"), "http://127.0.0.1:4318");
    assert_eq!(in_force("https://otel.example.com/below/"), "https://otel.example.com/below");
    for text in ["http://user:hunter2@127.0.0.1:4318", "http://127.0.0.1:4318?token=hunter2"] {
        let refused = format!("{:?}", read(&["--otel-exporter-otlp-endpoint", text]).unwrap_err());
        assert!(refused.contains("OTEL_EXPORTER_OTLP_ENDPOINT") && !refused.contains("hunter2"), "{refused}");
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

const SECRETS: [(&str, &str); 3] = [
    ("ADMIN_BOOTSTRAP_PASSWORD", " a pass word "),
    ("ADMIN_TOKEN_SECRET", "0123456789abcdef0123456789abcdef"),
    ("DATABASE_URL", "postgres://u:p@h/d"),
];

fn flag(setting: &str, value: &str) -> String {
    format!("--{}={value}", setting.to_lowercase().replace('_', "-"))
}

#[test]
fn secrets_come_from_files_without_the_end_of_the_line() {
    let folder = tempfile::tempdir().unwrap();
    for (setting, secret) in SECRETS {
        for end in ["", "\n", "\r\n"] {
            let file = folder.path().join("secret");
            std::fs::write(&file, format!("{secret}{end}")).unwrap();
            let config = read(&[&flag(&format!("{setting}_FILE"), file.to_str().unwrap())]).unwrap();
            let auth = &config.auth;
            let all = [&auth.bootstrap_password, &auth.token_secret, &config.database.url];
            let set: Vec<&str> = all.into_iter().flatten().map(Secret::expose).collect();
            assert_eq!(set, [secret], "{setting}");
            let shown = config.in_force();
            assert_eq!(shown[setting], "***");
            assert_eq!(shown[&format!("{setting}_FILE")], file.to_str().unwrap());
            assert_eq!(config.secret_files().len(), 1);
        }
    }
}

#[test]
fn a_secret_that_is_set_twice_or_whose_file_is_no_good_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let file = |name: &str, bytes: &[u8]| {
        std::fs::write(folder.path().join(name), bytes).unwrap();
        folder.path().join(name).to_str().unwrap().to_owned()
    };
    let good = file("good", b"x");
    let pipe = folder.path().join("pipe").to_str().unwrap().to_owned();
    rustix::fs::mkfifoat(rustix::fs::CWD, &pipe, rustix::fs::Mode::RUSR).unwrap();
    for (setting, secret) in SECRETS {
        let of_file = format!("{setting}_FILE");
        let refused = read(&[&flag(setting, secret), &flag(&of_file, &good)]).unwrap_err().to_string();
        assert!(refused.starts_with(setting) && refused.contains(&of_file), "{refused}");
        for (bad, problem) in [
            ("/does/not/exist".to_owned(), "cannot be read"),
            (folder.path().to_str().unwrap().to_owned(), "it is a folder"),
            (pipe.clone(), "it is a pipe"),
            ("/dev/zero".to_owned(), "not a regular file"),
            (file("empty", b" \n"), "is empty"),
            (file("large", &[b'x'; 70_000]), "too large"),
            (file("binary", b"\xff\xfe"), "UTF-8"),
        ] {
            let refused = read(&[&flag(&of_file, &bad)]).unwrap_err().to_string();
            assert!(refused.starts_with(&of_file) && refused.contains(problem), "{refused}");
        }
    }
    let short = read(&[&flag("ADMIN_TOKEN_SECRET_FILE", &good)]).unwrap_err();
    assert_eq!(short.0[0].setting, "ADMIN_TOKEN_SECRET_FILE");
}

#[test]
fn plugin_settings_come_from_files_too() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("settings");
    std::fs::write(&file, "{\"a\": 1}\n").unwrap();
    let path = file.to_str().unwrap();
    let variables = [("PLUGIN_SETTINGS_X_FILE", path), ("PLUGIN_SETTINGS_A_FILE", "{\"b\": 2}")];
    let config = read_with(&[], &variables).unwrap();
    assert_eq!((&config.plugins.settings["x"]["a"], &config.plugins.settings["a_file"]["b"]), (&1.into(), &2.into()));
    assert_eq!(config.secret_files(), [("PLUGIN_SETTINGS_X_FILE", file.as_path())]);
    let both = read_with(&[], &[("PLUGIN_SETTINGS_X_FILE", path), ("PLUGIN_SETTINGS_X", "{}")]).unwrap_err();
    assert!(both.to_string().starts_with("PLUGIN_SETTINGS_X_FILE") && both.to_string().contains("too"), "{both}");
}

/// The page of all settings, as the flags' own texts say it.
fn settings_page() -> String {
    let mut page = String::from(
        "# Settings\n\nEvery setting is an environment variable and a flag: `LISTEN_ADDR` is `--listen-addr`. The flag wins. \
         `cardinal serve --help` prints the same. An empty variable counts as not set.\n",
    );
    let mut heading = None;
    for argument in Line::command().get_arguments() {
        let Some(variable) = argument.get_env().and_then(|name| name.to_str()) else { continue };
        if heading != argument.get_help_heading() {
            heading = argument.get_help_heading();
            page += &format!("\n## {}\n\n| setting | meaning |\n|---|---|\n", heading.unwrap_or("Others"));
        }
        let help = argument.get_long_help().or(argument.get_help()).unwrap().to_string();
        page += &format!("| `{variable}` | {} |\n", help.replace('\n', " ").replace('|', "\\|").replace('<', "\\<"));
    }
    page + "\nA plugin's own settings are `PLUGIN_SETTINGS_<NAME>`, a JSON object, or `PLUGIN_SETTINGS_<NAME>_FILE`: see \
            [Plugins in operation](plugins.md#settings-of-a-plugin). Files for secrets: [Secrets](security.md). What is sent \
            to a collector: [Traces](monitoring.md#traces).\n"
}

/// `UPDATE_DOCS=1 cargo test -p cardinal-base` writes it anew.
#[test]
fn the_page_of_settings_is_fresh() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/settings.md");
    if std::env::var_os("UPDATE_DOCS").is_some() {
        std::fs::write(path, settings_page()).unwrap();
    }
    assert!(std::fs::read_to_string(path).unwrap_or_default() == settings_page(), "UPDATE_DOCS=1 writes it anew");
}
