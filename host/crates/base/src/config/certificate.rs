//! What clients see of the server's certificate.

use std::time::SystemTime;

use time::{Duration, OffsetDateTime, format_description::well_known::Rfc3339};
use tokio_rustls::rustls::{
    client::verify_server_name,
    pki_types::{CertificateDer, ServerName},
    server::ParsedCertificate,
};
use x509_cert::{Certificate as X509, der::Decode as _};

/// A certificate is renewed long before this much of it is left; of one with a short life a part, see
/// [`SHORT_LIFE_PART`].
const MAX_WARNING: Duration = Duration::days(14);
/// Of a life of 90 days those are 15, of 6 days one.
const SHORT_LIFE_PART: i32 = 6;

/// The server's own certificate, the first of its chain.
#[derive(Debug, Clone)]
pub struct Certificate {
    der: CertificateDer<'static>,
    pub begins_at: OffsetDateTime,
    pub expires_at: OffsetDateTime,
}

/// Whether clients accept a certificate at a time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Validity {
    NotYet,
    Valid,
    ExpiresSoon,
    Expired,
}

impl Certificate {
    /// None where it cannot be read.
    pub(super) fn new(der: CertificateDer<'static>) -> Option<Self> {
        let validity = *X509::from_der(&der).ok()?.tbs_certificate().validity();
        let time = |at: x509_cert::time::Time| OffsetDateTime::from(SystemTime::from(at));
        let (begins_at, expires_at) = (time(validity.not_before), time(validity.not_after));
        Some(Self { der, begins_at, expires_at })
    }

    /// When it begins and expires, for people.
    pub fn dates(&self) -> [String; 2] {
        [self.begins_at, self.expires_at].map(|at| at.format(&Rfc3339).unwrap_or_else(|_| at.to_string()))
    }

    pub fn validity(&self, now: OffsetDateTime) -> Validity {
        let life = self.expires_at - self.begins_at;
        let left = self.expires_at - now;
        if now < self.begins_at {
            Validity::NotYet
        } else if left < Duration::ZERO {
            Validity::Expired
        } else if left < MAX_WARNING.min(life / SHORT_LIFE_PART) {
            Validity::ExpiresSoon
        } else {
            Validity::Valid
        }
    }

    /// Whether clients that connect to `host`, a name or an address, accept it.
    pub fn names(&self, host: &str) -> bool {
        let Ok(name) = ServerName::try_from(host.trim_start_matches('[').trim_end_matches(']')) else { return false };
        ParsedCertificate::try_from(&self.der).is_ok_and(|parsed| verify_server_name(&parsed, &name).is_ok())
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use time::macros::datetime;
    use tokio_rustls::rustls::pki_types::pem::PemObject as _;

    use super::*;

    fn known(name: &str) -> Certificate {
        let path = format!("{}/tests/tls/{name}.crt.pem", env!("CARGO_MANIFEST_DIR"));
        Certificate::new(CertificateDer::from_pem_file(path).unwrap()).unwrap()
    }

    #[test]
    fn a_certificate_is_valid_between_its_two_dates() {
        let expired = known("expired");
        assert_eq!(expired.begins_at, datetime!(2026-01-01 00:00 UTC));
        assert_eq!(expired.expires_at, datetime!(2026-04-01 00:00 UTC));
        assert_eq!(expired.dates(), ["2026-01-01T00:00:00Z", "2026-04-01T00:00:00Z"]);
        for (now, validity) in [
            (datetime!(2025-12-31 23:59:59 UTC), Validity::NotYet),
            (datetime!(2026-01-01 00:00 UTC), Validity::Valid),
            (datetime!(2026-03-17 23:59 UTC), Validity::Valid),
            (datetime!(2026-03-18 00:01 UTC), Validity::ExpiresSoon),
            (datetime!(2026-04-01 00:00:01 UTC), Validity::Expired),
        ] {
            assert_eq!(expired.validity(now), validity, "{now}");
        }
        let short = Certificate { begins_at: datetime!(2026-03-26 00:00 UTC), ..expired };
        assert_eq!(short.validity(datetime!(2026-03-30 23:59 UTC)), Validity::Valid, "six days, of which one is left");
        assert_eq!(short.validity(datetime!(2026-03-31 00:01 UTC)), Validity::ExpiresSoon);
    }

    #[test]
    fn a_certificate_names_its_hosts_alone() {
        let certificate = known("expired");
        for host in ["127.0.0.1", "[::1]", "localhost", "SHOP.example.com", "a.plugins.example.com"] {
            assert!(certificate.names(host), "{host}");
        }
        for host in ["127.0.0.2", "example.com", "plugins.example.com", "a.b.plugins.example.com", "", "a b"] {
            assert!(!certificate.names(host), "{host}");
        }
    }
}
