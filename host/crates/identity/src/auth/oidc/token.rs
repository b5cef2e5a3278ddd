//! A JWT as it was sent, and everything about it that can be judged without the provider's keys.
//!
//! `jsonwebtoken` verifies signatures and lets pass what it doesn't know: critical extensions, other
//! types of token, dates in the far future, several issuers. All of that is refused here.

use base64::{Engine, engine::general_purpose::URL_SAFE_NO_PAD};
use serde::{Deserialize, Deserializer, de::DeserializeOwned, de::IgnoredAny};
use serde_json::Value;
use time::OffsetDateTime;

use cardinal_base::scope::{SCOPE_LIMIT, ScopeSet};

/// How far the provider's clock and ours may be apart.
pub const LEEWAY: time::Duration = time::Duration::seconds(30);
/// Bytes of a subject: what OpenID Connect allows.
const MAX_SUBJECT: usize = 255;
/// The last second that a date of ours can hold.
const END_OF_TIME: f64 = 253_402_300_799.0;

/// Why a token is refused; the text goes to the log, never to the client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum JwtError {
    Invalid(&'static str),
    Expired,
}

/// A token in its parts. Nothing has been verified.
pub(super) struct Jwt<'a> {
    /// What the signature is over: header, dot, claims.
    pub message: &'a str,
    pub signature: &'a str,
    pub key_id: Option<String>,
    pub claims: Claims,
}

#[derive(Deserialize)]
struct Head {
    alg: String,
    kid: Option<String>,
    typ: Option<String>,
    #[serde(default, deserialize_with = "is_there")]
    crit: bool,
    /// RFC 7797: the payload would not be what it looks like.
    #[serde(default, deserialize_with = "is_there")]
    b64: bool,
}

/// What the token says of itself.
#[derive(Deserialize)]
pub(super) struct Claims {
    pub iss: String,
    pub sub: String,
    aud: Audience,
    exp: f64,
    nbf: Option<f64>,
    iat: Option<f64>,
    #[serde(default)]
    scope: Value,
    #[serde(default)]
    scp: Value,
    #[serde(default)]
    permissions: Value,
    preferred_username: Option<Value>,
    email: Option<Value>,
}

#[derive(Deserialize)]
#[serde(untagged)]
enum Audience {
    One(String),
    Several(Vec<String>),
}

impl<'a> Jwt<'a> {
    /// Takes a token apart. Its signature is not looked at: the algorithm comes from here, never
    /// from the token, and a token that names another one is refused.
    pub(super) fn parse(token: &'a str) -> Result<Self, JwtError> {
        let malformed = JwtError::Invalid("it is not a JWT");
        let (message, signature) = token.rsplit_once('.').ok_or(malformed)?;
        let (head, claims) = message.split_once('.').ok_or(malformed)?;
        let head: Head = part(head).ok_or(JwtError::Invalid("its header cannot be read"))?;
        if head.alg != "ES384" {
            return Err(JwtError::Invalid("it is not signed with ES384"));
        }
        if head.crit || head.b64 {
            return Err(JwtError::Invalid("it demands an extension"));
        }
        if !head.typ.is_none_or(|typ| is_access_token(&typ)) {
            return Err(JwtError::Invalid("it is not an access token"));
        }
        let claims = part(claims).ok_or(JwtError::Invalid("a claim is missing or of the wrong type"))?;
        Ok(Self { message, signature, key_id: head.kid, claims })
    }
}

/// RFC 9068 wants `at+jwt`; many providers still write `JWT` or nothing.
fn is_access_token(typ: &str) -> bool {
    let short = typ.get(..12).filter(|start| start.eq_ignore_ascii_case("application/")).map_or(typ, |_| &typ[12..]);
    short.eq_ignore_ascii_case("at+jwt") || short.eq_ignore_ascii_case("jwt")
}

fn part<T: DeserializeOwned>(text: &str) -> Option<T> {
    serde_json::from_slice(&URL_SAFE_NO_PAD.decode(text).ok()?).ok()
}

fn is_there<'de, D: Deserializer<'de>>(value: D) -> Result<bool, D::Error> {
    IgnoredAny::deserialize(value).map(|_| true)
}

impl Claims {
    /// Whether they are meant for us, now.
    pub(super) fn validate(&self, issuer: &str, audience: &str, now: OffsetDateTime) -> Result<(), JwtError> {
        if self.iss != issuer {
            return Err(JwtError::Invalid("it comes from another issuer"));
        }
        let meant = match &self.aud {
            Audience::One(one) => one == audience,
            Audience::Several(several) => several.iter().any(|one| one == audience),
        };
        if !meant {
            return Err(JwtError::Invalid("it is meant for another audience"));
        }
        if self.sub.is_empty() || self.sub.len() > MAX_SUBJECT || self.sub.chars().any(char::is_control) {
            return Err(JwtError::Invalid("its subject is empty, too long or not plain text"));
        }
        let soon = seconds(now + LEEWAY);
        if self.nbf.is_some_and(|from| from > soon) {
            return Err(JwtError::Invalid("it is not valid yet"));
        }
        if self.iat.is_some_and(|made| made > soon) {
            return Err(JwtError::Invalid("it was issued in the future"));
        }
        if self.exp <= seconds(now - LEEWAY) { Err(JwtError::Expired) } else { Ok(()) }
    }

    /// When it ends, by its own word.
    pub(super) fn expires_at(&self) -> OffsetDateTime {
        // In bounds, so nothing is lost but the fraction of a second.
        let end = self.exp.clamp(0.0, END_OF_TIME) as i64;
        OffsetDateTime::from_unix_timestamp(end).unwrap_or(OffsetDateTime::UNIX_EPOCH)
    }

    /// The scopes that it carries, however the provider writes them: `scope`, `scp` or `permissions`,
    /// as a text with spaces or as a list. What is no scope of ours (`openid`, `profile`) is dropped.
    pub(super) fn scopes(&self) -> ScopeSet {
        let all = [&self.scope, &self.scp, &self.permissions].into_iter().flat_map(|claim| match claim {
            Value::String(text) => text.split_ascii_whitespace().collect::<Vec<_>>(),
            Value::Array(list) => list.iter().filter_map(Value::as_str).collect(),
            _ => Vec::new(),
        });
        ScopeSet::lenient(all.filter(|scope| scope.contains(':') || *scope == "*").take(SCOPE_LIMIT))
    }

    /// What its holder is called, for people: the first of these that is a name.
    pub(super) fn name(&self) -> &str {
        let names = [&self.preferred_username, &self.email].into_iter().flatten().filter_map(Value::as_str);
        names.map(str::trim).find(|name| !name.is_empty()).unwrap_or(&self.sub)
    }
}

fn seconds(at: OffsetDateTime) -> f64 {
    at.unix_timestamp() as f64
}

#[cfg(test)]
mod tests {
    use super::{
        super::sample::{self, AUDIENCE, ISSUER, NOW},
        *,
    };
    use proptest::prelude::*;
    use serde_json::json;

    fn validated(claims: &Value) -> Result<(), JwtError> {
        let token = sample::unsigned(&json!({"alg": "ES384"}), &sample::claims(claims));
        Jwt::parse(&token)?.claims.validate(ISSUER, AUDIENCE, NOW)
    }

    fn parsed(head: &Value) -> bool {
        Jwt::parse(&sample::unsigned(head, &sample::claims(&json!({})))).is_ok()
    }

    #[test]
    fn the_algorithm_is_es384_whatever_the_token_says() {
        assert!(parsed(&json!({"alg": "ES384"})));
        for alg in
            [json!("none"), json!("HS256"), json!("ES256"), json!("RS256"), json!("es384"), json!(null), json!(1)]
        {
            assert!(!parsed(&json!({"alg": alg})), "{alg}");
        }
        assert!(!parsed(&json!({})) && !parsed(&json!([])) && !parsed(&json!("ES384")));
    }

    #[test]
    fn extensions_and_other_types_of_token_are_refused() {
        for typ in ["JWT", "jwt", "at+jwt", "AT+JWT", "application/at+jwt"] {
            assert!(parsed(&json!({"alg": "ES384", "typ": typ})), "{typ}");
        }
        for typ in ["", "logout+jwt", "dpop+jwt", "application/", "JWE", "applicationé/jwt"] {
            assert!(!parsed(&json!({"alg": "ES384", "typ": typ})), "{typ}");
        }
        for more in [json!({"crit": ["exp"]}), json!({"crit": []}), json!({"crit": null}), json!({"b64": false})] {
            let mut head = json!({"alg": "ES384"});
            head.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
            assert!(!parsed(&head), "{head}");
        }
        assert!(!parsed(&json!({"alg": "ES384", "kid": 7})));
    }

    #[test]
    fn a_name_twice_is_refused() {
        let head = URL_SAFE_NO_PAD.encode(r#"{"alg":"none","alg":"ES384"}"#);
        assert!(Jwt::parse(&format!("{head}.e30.")).is_err());
    }

    #[test]
    fn claims_must_be_meant_for_us() {
        assert_eq!(validated(&json!({})), Ok(()));
        assert_eq!(validated(&json!({"aud": ["https://other.example.com", AUDIENCE]})), Ok(()));
        for wrong in [
            json!({"aud": "https://other.example.com"}),
            json!({"aud": format!("{AUDIENCE}/")}),
            json!({"aud": format!("{AUDIENCE}/mcp")}),
            json!({"aud": []}),
            json!({"aud": null}),
            json!({"aud": {"a": AUDIENCE}}),
            json!({"iss": "https://evil.example.com"}),
            json!({"iss": format!("{ISSUER}/")}),
            json!({"iss": [ISSUER]}),
            json!({"iss": null}),
            json!({"sub": ""}),
            json!({"sub": null}),
            json!({"sub": 7}),
            json!({"sub": "a\u{0}b"}),
            json!({"sub": "x".repeat(256)}),
            json!({"exp": null}),
            json!({"exp": "2100"}),
        ] {
            assert!(matches!(validated(&wrong), Err(JwtError::Invalid(_))), "{wrong}");
        }
    }

    #[test]
    fn its_dates_hold_with_half_a_minute_of_leeway() {
        let now = NOW.unix_timestamp();
        assert_eq!(validated(&json!({"exp": now - 29})), Ok(()));
        assert_eq!(validated(&json!({"exp": now - 30})), Err(JwtError::Expired));
        assert_eq!(validated(&json!({"exp": 1e300, "nbf": now + 30, "iat": now + 30})), Ok(()));
        assert_eq!(validated(&json!({"exp": -1e300})), Err(JwtError::Expired));
        assert!(matches!(validated(&json!({"nbf": now + 31})), Err(JwtError::Invalid(_))));
        assert!(matches!(validated(&json!({"iat": now + 31})), Err(JwtError::Invalid(_))));
        assert!(matches!(validated(&json!({"iat": 4_102_444_800_i64})), Err(JwtError::Invalid(_))));
        assert_eq!(validated(&json!({"nbf": now as f64 + 29.5, "iat": now - 1_000_000})), Ok(()));
    }

    fn claims(more: &Value) -> Claims {
        serde_json::from_value(sample::claims(more)).unwrap()
    }

    #[test]
    fn scopes_come_from_three_claims_in_two_forms() {
        for more in [
            json!({"scope": "openid cards:read  mcp:use profile"}),
            json!({"scp": ["cards:read", 7, "mcp:use"]}),
            json!({"permissions": ["cards:read"], "scope": "mcp:use", "scp": 7}),
        ] {
            let mut scopes = claims(&more).scopes().to_strings();
            scopes.sort();
            assert_eq!(scopes, ["cards:read", "mcp:use"], "{more}");
        }
        assert!(claims(&json!({})).scopes().is_empty());
        let many: Vec<_> = (0..1000).map(|i| format!("plugin:p{i}:read")).collect();
        assert_eq!(claims(&json!({"scp": many})).scopes().to_strings().len(), SCOPE_LIMIT);
    }

    #[test]
    fn a_holder_has_a_name() {
        assert_eq!(claims(&json!({"sub": "s"})).name(), "s");
        assert_eq!(claims(&json!({"sub": "s", "email": "a@b.c", "preferred_username": " "})).name(), "a@b.c");
        assert_eq!(claims(&json!({"preferred_username": " ann "})).name(), "ann");
        assert_eq!(claims(&json!({"sub": "s", "email": 7})).name(), "s");
    }

    proptest! {
        #[test]
        fn any_text_is_parsed_or_refused(text in "\\PC{0,200}") {
            prop_assert!(Jwt::parse(&text).is_err());
        }

        #[test]
        fn any_three_parts_are_parsed_or_refused(a in "\\PC{0,60}", b in "\\PC{0,60}", c in "[A-Za-z0-9_-]{0,20}") {
            let token = [URL_SAFE_NO_PAD.encode(a), URL_SAFE_NO_PAD.encode(b), c].join(".");
            prop_assert!(Jwt::parse(&token).is_err());
        }

        #[test]
        fn a_cut_or_changed_token_never_passes_as_another(at in 0_usize..400, to in "[A-Za-z0-9_.-]") {
            let token = sample::token("a", &json!({}));
            let at = at % token.len();
            let mut changed = token.clone();
            changed.replace_range(at..=at, &to);
            let keys = sample::keys(&["a"]);
            let genuine = |token: &str| {
                let Ok(jwt) = Jwt::parse(token) else { return false };
                keys.signer(jwt.key_id.as_deref(), jwt.message, jwt.signature).is_some()
            };
            prop_assert!(genuine(&token));
            prop_assert_eq!(genuine(&changed), changed == token);
            prop_assert!(!genuine(&token[..at]));
        }

        #[test]
        fn any_numbers_are_judged(exp in any::<f64>(), nbf in any::<i64>(), iat in any::<u64>()) {
            // Not a number is written as null, which is no date.
            let _ = validated(&json!({"exp": exp, "nbf": nbf, "iat": iat}));
            if exp.is_finite() {
                let _ = claims(&json!({"exp": exp})).expires_at();
            }
        }
    }
}
