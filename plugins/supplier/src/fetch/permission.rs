//! Asks a site which of its pages it permits robots to read, once in a while.

use std::sync::Arc;

use cardinal_plugin::HttpResponse;
use cardinal_plugin::http::{HeaderMap, StatusCode};
use url::Url;

use super::exchange::{self, Exchange};
use super::{FetchError, MAX_REDIRECTS, OUR_TOKEN, TOTAL_TIMEOUT, Visit, check};
use crate::politeness::{RobotsPolicy, Turn};
use supplier_pages::robots::Robots;

/// RFC 9309 wants at least 500 KiB read; what a longer file says further down is not heard.
const MAX_ROBOTS: usize = 512 << 10;
/// However long the file is.
const ANY_LENGTH: usize = 1 << 30;

/// Goes well when the site permits the page. Part of the visit that `turn` stands for: there is no
/// pause between robots.txt and the page.
pub(super) async fn ask(visit: Visit<'_>, turn: &mut Turn, url: &Url) -> Result<(), FetchError> {
    let verdict = match turn.verdict(url) {
        Some(verdict) => verdict,
        None => {
            let verdict = read(visit, url).await?;
            turn.remember(url, verdict.clone());
            verdict
        }
    };
    match verdict {
        RobotsPolicy::Rules(robots) if robots.permits(url) => Ok(()),
        RobotsPolicy::Rules(_) => Err(FetchError::RobotsRefused),
        RobotsPolicy::Failed(status) => Err(FetchError::RobotsUnavailable(status)),
    }
}

/// A site that cannot be reached at all is an error of its own: the page would meet the same.
async fn read(visit: Visit<'_>, url: &Url) -> Result<RobotsPolicy, FetchError> {
    let mut url = url.clone();
    url.set_path("/robots.txt");
    url.set_query(None);
    for _ in 0..=MAX_REDIRECTS {
        // The rules may stand at another site, which is asked for this one file without waiting for
        // a turn there: to hold two turns at a time could lock two calls against each other.
        if check(&url).is_err() {
            break;
        }
        let headers = HeaderMap::new();
        let exchange = Exchange { url: &url, headers, max_bytes: ANY_LENGTH, timeout: TOTAL_TIMEOUT };
        match answer(&url, exchange.send(visit).await?).await? {
            Answer::Verdict(verdict) => return Ok(verdict),
            Answer::Redirect(to) => url = to,
        }
    }
    // Nowhere to be found: as if there were none, RFC 9309 2.3.1.2.
    Ok(RobotsPolicy::Rules(Arc::default()))
}

enum Answer {
    Verdict(RobotsPolicy),
    Redirect(Url),
}

async fn answer(url: &Url, response: HttpResponse) -> Result<Answer, FetchError> {
    if let Some(to) = exchange::redirect(url, &response) {
        return Ok(Answer::Redirect(to?));
    }
    let status = response.status();
    if status.is_server_error() || status == StatusCode::TOO_MANY_REQUESTS {
        return Ok(Answer::Verdict(RobotsPolicy::Failed(status.as_u16())));
    }
    if !status.is_success() {
        return Ok(Answer::Verdict(RobotsPolicy::Rules(Arc::default())));
    }
    let text = exchange::beginning(response, MAX_ROBOTS).await?;
    let robots = Robots::parse(&String::from_utf8_lossy(&text), OUR_TOKEN);
    Ok(Answer::Verdict(RobotsPolicy::Rules(Arc::new(robots))))
}
