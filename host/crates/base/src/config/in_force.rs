//! The settings as they are in force, for operators to look at.

use std::fmt::Display;
use std::path::PathBuf;

use serde_json::{Map, Value, json};

use super::{Config, Confirm, Secret, Trust};

const MASK: &str = "***";

impl Config {
    /// Every setting by the name of its variable; what is a secret, or may hold one, is masked; what is not set is
    /// null.
    pub fn in_force(&self) -> Map<String, Value> {
        let settings = [self.network_in_force(), self.auth_in_force(), self.storage_in_force(), self.rest_in_force()];
        let mut shown: Map<String, Value> =
            settings.into_iter().flatten().map(|(name, value)| (name.to_owned(), value)).collect();
        for name in self.plugins.settings.keys() {
            shown.insert(format!("PLUGIN_SETTINGS_{}", name.to_ascii_uppercase()), MASK.into());
        }
        shown
    }

    fn network_in_force(&self) -> Vec<(&'static str, Value)> {
        let http = &self.http;
        let routes = self.proxy.routes.iter().map(|route| format!("{}={}", route.prefix, route.upstream()));
        vec![
            ("LISTEN_ADDR", text(http.listen_addr)),
            ("BASE_URL", text(&http.base_url)),
            ("ADMIN_LISTEN_ADDR", optional(http.admin_listen_addr.as_ref())),
            ("PROXY_HOSTS", list(&http.proxy_hosts)),
            ("ALLOWED_HOSTS", list(&http.allowed_hosts)),
            ("TRUSTED_PROXIES", list(&http.trusted_proxies)),
            ("PICTURE_NETWORKS", list(&http.picture_networks)),
            ("ADMIN_CORS_ORIGINS", list(&http.cors_origins)),
            ("SHUTDOWN_GRACE_SECONDS", json!(http.shutdown_grace.as_secs())),
            ("PROXY_ROUTES", list(&routes.collect::<Vec<_>>())),
            ("PROXY_TIMEOUT_SECONDS", json!(self.proxy.timeout.as_secs())),
            ("PROXY_IDLE_SECONDS", json!(self.proxy.idle.as_secs())),
            ("TLS_CERT", path(http.tls.as_ref().map(|files| &files.cert))),
            ("TLS_KEY", path(http.tls.as_ref().map(|files| &files.key))),
        ]
    }

    fn auth_in_force(&self) -> Vec<(&'static str, Value)> {
        let auth = &self.auth;
        vec![
            ("ADMIN_BOOTSTRAP_USERNAME", optional(auth.bootstrap_username.as_ref())),
            ("ADMIN_BOOTSTRAP_PASSWORD", masked(auth.bootstrap_password.as_ref())),
            ("ADMIN_BOOTSTRAP_PASSWORD_FILE", path(auth.bootstrap_password_file.as_ref())),
            ("ADMIN_TOKEN_TTL_HOURS", json!(auth.token_ttl_hours)),
            ("ADMIN_TOKEN_SECRET", masked(auth.token_secret.as_ref())),
            ("ADMIN_TOKEN_SECRET_FILE", path(auth.token_secret_file.as_ref())),
            ("API_KEY_RATE_PER_MINUTE", json!(auth.key_rate_per_minute)),
            ("AUTH_URL", optional(auth.auth_url.as_ref())),
            ("OIDC_ISSUER", optional(auth.oidc_issuer.as_ref())),
            ("OIDC_JWKS_URL", optional(auth.oidc_jwks_url.as_ref())),
            ("OIDC_MAX_SCOPES", list(&auth.oidc_max_scopes)),
        ]
    }

    fn storage_in_force(&self) -> Vec<(&'static str, Value)> {
        let (database, plugins) = (&self.database, &self.plugins);
        let paths = |paths: &[std::path::PathBuf]| list(&paths.iter().map(|path| path.display()).collect::<Vec<_>>());
        let trust = match plugins.trust {
            Trust::Record => "record",
            Trust::Lock => "lock",
            Trust::Signed => "signed",
        };
        vec![
            ("DATA_DIR", text(self.paths.data_dir.display())),
            ("PLUGINS_DIR", text(self.paths.plugins_dir.display())),
            ("DATABASE_URL", masked(database.url.as_ref())),
            ("DATABASE_URL_FILE", path(database.url_file.as_ref())),
            ("DATABASE_SECRET_FILE", path(database.secret_file.as_ref())),
            ("DB_PREPARED", switch(database.prepared)),
            ("POSTGRES_BIN_DIR", path(database.bin_dir.as_ref())),
            ("PLUGIN_TRUST", trust.into()),
            ("PLUGIN_LOCK_FILE", text(plugins.lock_file.display())),
            ("PLUGIN_TRUST_KEYS", paths(&plugins.trust_keys)),
            ("PLUGIN_UPLOAD", switch(plugins.upload)),
            ("PLUGIN_EXECUTION", text(&plugins.execution)),
            ("PLUGIN_BREAKER", text(&plugins.breaker)),
            ("PLUGIN_NETWORKS", text(&plugins.networks)),
        ]
    }

    fn rest_in_force(&self) -> Vec<(&'static str, Value)> {
        let observe = &self.observe;
        let confirm = match self.mcp.confirm {
            Confirm::Auto => "auto",
            Confirm::Admin => "admin",
        };
        vec![
            ("MCP_CONFIRM", confirm.into()),
            ("CARD_RETENTION_DAYS", json!(self.cards.retention_days)),
            ("AUDIT_RETENTION_DAYS", json!(self.cards.audit_retention_days)),
            ("METRICS_ADDR", optional(observe.metrics_addr.as_ref())),
            ("LOG_FORMAT", observe.log_format.as_str().into()),
            ("LOG_LEVEL", text(&observe.log_level)),
            ("OTEL_EXPORTER_OTLP_ENDPOINT", optional(observe.otlp_endpoint.as_ref())),
        ]
    }
}

fn text(value: impl Display) -> Value {
    value.to_string().into()
}

fn optional(value: Option<impl Display>) -> Value {
    value.map_or(Value::Null, text)
}

fn path(value: Option<&PathBuf>) -> Value {
    optional(value.map(|path| path.display()))
}

fn masked(value: Option<&Secret>) -> Value {
    value.map_or(Value::Null, |_| MASK.into())
}

fn list(values: &[impl Display]) -> Value {
    values.iter().map(ToString::to_string).collect()
}

fn switch(on: bool) -> Value {
    if on { "on".into() } else { "off".into() }
}
