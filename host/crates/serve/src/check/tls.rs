//! Whether clients accept the certificate that the host serves TLS with.

use time::OffsetDateTime;
use url::Url;

use super::finding::Finding;
use cardinal_base::config::{Certificate, Validity};

const SETTING: &str = "TLS_CERT";

pub fn check(certificate: &Certificate, base_url: &str, now: OffsetDateTime) -> Vec<Finding> {
    [Some(validity(certificate, now)), name(certificate, base_url)].into_iter().flatten().collect()
}

fn validity(certificate: &Certificate, now: OffsetDateTime) -> Finding {
    let [begins_at, expires_at] = certificate.dates();
    let renew = "Renew it: the host reads the files again by itself.";
    match certificate.validity(now) {
        Validity::Valid => Finding::ok("tls-certificate", SETTING, "The TLS certificate is valid.")
            .found(format!("it expires at {expires_at}")),
        Validity::ExpiresSoon => {
            Finding::warning("tls-certificate-expires", SETTING, "The TLS certificate expires soon.")
                .found(format!("it expires at {expires_at}"))
                .fix(renew)
        }
        Validity::Expired => {
            Finding::error("tls-certificate-expired", SETTING, "The TLS certificate has expired: clients refuse it.")
                .found(format!("it expired at {expires_at}"))
                .fix(renew)
        }
        Validity::NotYet => Finding::error(
            "tls-certificate-not-yet",
            SETTING,
            "The TLS certificate is not yet valid: clients refuse it.",
        )
        .found(format!("it is valid from {begins_at}"))
        .fix("Set the machine's clock, or wait."),
    }
}

fn name(certificate: &Certificate, base_url: &str) -> Option<Finding> {
    let url = Url::parse(base_url).ok()?;
    let host = url.host_str()?;
    (!certificate.names(host)).then(|| {
        let message = "The TLS certificate does not name the host in BASE_URL: clients refuse it.";
        Finding::warning("tls-certificate-name", SETTING, message)
            .found(base_url)
            .expected("a certificate that names this host")
            .fix("Get a certificate with this name, or set BASE_URL to the address that clients use.")
    })
}
