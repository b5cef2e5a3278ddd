use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use super::{
    network,
    reader::{Reader, SecretSetting, number},
    secret::Secret,
};
use crate::scope::{self, ScopeSet};

const DEFAULT_TOKEN_TTL_HOURS: u32 = 24;
const MAX_TOKEN_TTL_HOURS: u32 = 8760;
const MIN_TOKEN_SECRET_BYTES: usize = 32;
const MAX_PASSWORD_BYTES: usize = 256;
const MAX_USERNAME: usize = 120;
const DEFAULT_KEY_RATE_PER_MINUTE: u32 = 6000;
const MAX_KEY_RATE_PER_MINUTE: u32 = 100_000_000;
/// What a JWT may do unless OIDC_MAX_SCOPES says otherwise.
pub const DEFAULT_OIDC_MAX_SCOPES: [&str; 4] = ["mcp:use", "cards:read", "plugin:*:read", "plugin:*:write"];

/// Who gets in and for how long.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Auth {
    pub bootstrap_username: Option<String>,
    pub bootstrap_password: Option<Secret>,
    /// Where it was read from.
    pub bootstrap_password_file: Option<PathBuf>,
    pub token_ttl_hours: u32,
    pub token_secret: Option<Secret>,
    pub token_secret_file: Option<PathBuf>,
    pub key_rate_per_minute: u32,
    pub auth_url: Option<String>,
    pub oidc_issuer: Option<String>,
    pub oidc_jwks_url: Option<String>,
    pub oidc_max_scopes: Vec<String>,
}

#[derive(Debug, Clone, Default, clap::Args)]
#[command(next_help_heading = "Authentication")]
#[group(skip)]
pub(super) struct Args {
    /// Login name of the first user, made when no user exists, e.g. alice [default: admin]
    #[arg(long, env, value_name = "NAME")]
    admin_bootstrap_username: Option<String>,
    /// Password of the first user, e.g. from a secret store; every user of this machine can read a flag in the list of
    /// processes [default: random, in DATA_DIR/bootstrap-password]
    #[arg(long, env, value_name = "PASSWORD", hide_env_values = true)]
    admin_bootstrap_password: Option<String>,
    /// File with the password of the first user, e.g. /run/secrets/admin-password
    #[arg(long, env, value_name = "FILE")]
    admin_bootstrap_password_file: Option<String>,
    /// Hours that a login lasts, 1 to 8760, e.g. 8 [default: 24]
    #[arg(long, env, value_name = "HOURS")]
    admin_token_ttl_hours: Option<String>,
    /// Secret that signs login tokens, 32 bytes or more, e.g. from `openssl rand -hex 32`; every user of this machine
    /// can read a flag in the list of processes [default: made in DATA_DIR]
    #[arg(long, env, value_name = "SECRET", hide_env_values = true)]
    admin_token_secret: Option<String>,
    /// File with the secret that signs login tokens, e.g. /run/secrets/token-secret
    #[arg(long, env, value_name = "FILE")]
    admin_token_secret_file: Option<String>,
    /// Requests a minute that an API key may make unless it says otherwise, e.g. 600 [default: 6000]
    #[arg(long, env, value_name = "NUMBER")]
    api_key_rate_per_minute: Option<String>,
    /// Identity provider whose tokens are accepted, e.g. https://auth.example.com [default: none]
    #[arg(long, env, value_name = "URL")]
    auth_url: Option<String>,
    /// Issuer that tokens must name, when discovery gives another, e.g. https://auth.example.com/oidc
    #[arg(long, env, value_name = "URL")]
    oidc_issuer: Option<String>,
    /// Where the provider's keys are, when discovery is not to be used, e.g. https://auth.example.com/oidc/jwks
    #[arg(long, env, value_name = "URL")]
    oidc_jwks_url: Option<String>,
    /// Most that such a token may do, e.g. "mcp:use cards:read"
    /// [default: mcp:use cards:read plugin:*:read plugin:*:write]
    #[arg(long, env, value_name = "SCOPES")]
    oidc_max_scopes: Option<String>,
}

impl Auth {
    pub(super) fn read(args: &Args, reader: &mut Reader) -> Auth {
        let auth = Self::each(args, reader);
        if auth.oidc_jwks_url.is_some() && auth.auth_url.is_none() && auth.oidc_issuer.is_none() {
            reader.fault(
                "OIDC_JWKS_URL",
                "keys alone are not enough: set OIDC_ISSUER to the issuer that tokens name, or AUTH_URL",
            );
        }
        auth
    }

    fn each(args: &Args, reader: &mut Reader) -> Auth {
        let bootstrap_password = reader.secret(
            "ADMIN_BOOTSTRAP_PASSWORD",
            &args.admin_bootstrap_password,
            "ADMIN_BOOTSTRAP_PASSWORD_FILE",
            &args.admin_bootstrap_password_file,
        );
        let secret = reader.secret(
            "ADMIN_TOKEN_SECRET",
            &args.admin_token_secret,
            "ADMIN_TOKEN_SECRET_FILE",
            &args.admin_token_secret_file,
        );
        Auth {
            bootstrap_username: reader.optional("ADMIN_BOOTSTRAP_USERNAME", &args.admin_bootstrap_username, username),
            bootstrap_password: password(&bootstrap_password, reader),
            bootstrap_password_file: bootstrap_password.file,
            token_ttl_hours: reader.value(
                "ADMIN_TOKEN_TTL_HOURS",
                &args.admin_token_ttl_hours,
                DEFAULT_TOKEN_TTL_HOURS,
                number(1..=MAX_TOKEN_TTL_HOURS),
            ),
            token_secret: reader.optional(secret.setting, &secret.text, token_secret),
            token_secret_file: secret.file,
            key_rate_per_minute: reader.value(
                "API_KEY_RATE_PER_MINUTE",
                &args.api_key_rate_per_minute,
                DEFAULT_KEY_RATE_PER_MINUTE,
                number(1..=MAX_KEY_RATE_PER_MINUTE),
            ),
            auth_url: reader.optional("AUTH_URL", &args.auth_url, network::provider_url),
            oidc_issuer: reader.optional("OIDC_ISSUER", &args.oidc_issuer, issuer),
            oidc_jwks_url: reader.optional("OIDC_JWKS_URL", &args.oidc_jwks_url, network::provider_url),
            oidc_max_scopes: reader
                .optional("OIDC_MAX_SCOPES", &args.oidc_max_scopes, scopes)
                .unwrap_or_else(|| DEFAULT_OIDC_MAX_SCOPES.map(str::to_owned).to_vec()),
        }
    }
}

fn username(text: &str) -> Result<String, String> {
    if text.chars().count() > MAX_USERNAME || text.chars().any(char::is_control) {
        return Err(format!("a login name has 1 to {MAX_USERNAME} characters and no control characters"));
    }
    Ok(text.to_owned())
}

/// Not trimmed: a space may be part of a password. One shorter than 8 is taken here and warned about at its use.
fn password(set: &SecretSetting, reader: &mut Reader) -> Option<Secret> {
    let text = set.text.as_deref()?;
    if text.len() > MAX_PASSWORD_BYTES {
        reader.fault(set.setting, format!("it has {} bytes; the most is {MAX_PASSWORD_BYTES}", text.len()));
        return None;
    }
    Some(Secret::new(text))
}

fn token_secret(text: &str) -> Result<Secret, String> {
    if text.len() < MIN_TOKEN_SECRET_BYTES {
        return Err(format!(
            "it has {} bytes; it needs {MIN_TOKEN_SECRET_BYTES} or more, for example from `openssl rand -hex 32`",
            text.len()
        ));
    }
    Ok(Secret::new(text))
}

/// Kept letter by letter: tokens are compared with it exactly, a slash at its end included.
fn issuer(text: &str) -> Result<String, String> {
    network::provider_url(text).map(|_| text.to_owned())
}

fn scopes(text: &str) -> Result<Vec<String>, String> {
    let scopes: Vec<String> = text.split([' ', ',']).filter(|it| !it.is_empty()).map(str::to_owned).collect();
    match ScopeSet::strict(&scopes) {
        Ok(_) => Ok(scopes),
        Err(at) => Err(scope::explain_unknown(&scopes[at])),
    }
}
