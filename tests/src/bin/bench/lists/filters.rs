//! What the lists are filtered by.

use std::borrow::Cow;

/// A filter, and the sort that it is of.
pub(super) struct ListFilter {
    pub class: &'static str,
    pub query: Cow<'static, str>,
    /// `updated_since`, too.
    pub since: Option<Since>,
}

/// So many seconds before the newest change.
#[derive(Clone, Copy)]
pub(super) struct Since(pub u64);

impl ListFilter {
    pub(super) fn named(&self) -> String {
        match self.since {
            None => self.query.to_string(),
            Some(Since(seconds)) => {
                format!("{}{}changed in {seconds} s", self.query, if self.query.is_empty() { "" } else { ", " })
            }
        }
    }
}

const fn asked(class: &'static str, query: &'static str) -> ListFilter {
    ListFilter { class, query: Cow::Borrowed(query), since: None }
}

const fn changed(class: &'static str, query: &'static str, since: u64) -> ListFilter {
    ListFilter { class, query: Cow::Borrowed(query), since: Some(Since(since)) }
}

const MINUTE: u64 = 60;
const TEN_MINUTES: u64 = 600;
const HALF_AN_HOUR: u64 = 1800;
const HOUR: u64 = 3600;
const WEEK: u64 = 604800;
const MONTH: u64 = 2592000;
const HALF_A_YEAR: u64 = 15552000;

const PLAIN: &str = "no search";
const WORDS: &str = "words";
const BOTH: &str = "words and changes";
const CHANGES: &str = "changes";
const SHORT: &str = "one or two letters";

pub(super) const MIXED: &[ListFilter] = &[
    asked(PLAIN, "status=active"),
    asked(PLAIN, "status=draft"),
    asked(PLAIN, "status=archived"),
    asked(PLAIN, "kind=supplier"),
    asked(PLAIN, "kind=price"),
    asked(PLAIN, "kind=review"),
    asked(PLAIN, "kind=rare"),
    asked(PLAIN, "plugin=stock"),
    asked(PLAIN, "missing_kind=supplier"),
    asked(PLAIN, "missing_kind=price"),
    asked(PLAIN, "missing_kind=rare"),
    asked(PLAIN, "deleted=true"),
    asked(PLAIN, "kind=price&status=archived"),
    asked(WORDS, "q=zebra"),
    asked(WORDS, "q=quokka"),
    asked(WORDS, "q=walnut"),
    asked(WORDS, "q=copper"),
    asked(WORDS, "q=velvet"),
    asked(WORDS, "q=marble"),
    asked(WORDS, "q=bamboo"),
    asked(WORDS, "q=silver"),
    asked(WORDS, "q=cotton"),
    asked(WORDS, "q=leather"),
    asked(WORDS, "q=garden"),
    asked(WORDS, "q=bosch"),
    asked(WORDS, "q=zither"),
    asked(WORDS, "q=anvil"),
    asked(WORDS, "q=00012"),
    asked(WORDS, "q=m-0004"),
    asked(WORDS, "q=abc"),
    asked(WORDS, "q=velvet&status=active"),
    asked(WORDS, "q=velvet&kind=price"),
    asked(WORDS, "q=velvet&kind=review"),
    asked(WORDS, "q=velvet&missing_kind=supplier"),
    asked(WORDS, "q=bamboo&status=active"),
    asked(WORDS, "q=bamboo&kind=price"),
    asked(WORDS, "q=bamboo&kind=review"),
    asked(WORDS, "q=bamboo&missing_kind=supplier"),
    asked(WORDS, "q=silver&status=active"),
    asked(WORDS, "q=silver&kind=price"),
    asked(WORDS, "q=silver&kind=review"),
    asked(WORDS, "q=silver&missing_kind=supplier"),
    asked(WORDS, "q=leather&status=active"),
    asked(WORDS, "q=leather&kind=price"),
    asked(WORDS, "q=leather&kind=review"),
    asked(WORDS, "q=leather&missing_kind=supplier"),
    changed(BOTH, "q=velvet", HOUR),
    changed(BOTH, "q=bamboo", HOUR),
    changed(BOTH, "q=silver", HOUR),
    changed(BOTH, "q=leather", HOUR),
    changed(BOTH, "q=garden", HOUR),
    changed(BOTH, "q=bosch", HOUR),
    changed(BOTH, "q=velvet", MONTH),
    changed(BOTH, "q=bamboo", MONTH),
    changed(BOTH, "q=silver", MONTH),
    changed(BOTH, "q=leather", MONTH),
    changed(BOTH, "q=garden", MONTH),
    changed(BOTH, "q=bosch", MONTH),
    changed(BOTH, "q=bamboo", TEN_MINUTES),
    changed(BOTH, "q=leather", TEN_MINUTES),
    changed(BOTH, "q=garden", TEN_MINUTES),
    changed(BOTH, "q=leather&kind=price", HOUR),
    changed(BOTH, "q=garden&status=active", MONTH),
    changed(CHANGES, "", MINUTE),
    changed(CHANGES, "", TEN_MINUTES),
    changed(CHANGES, "", HALF_AN_HOUR),
    changed(CHANGES, "", HOUR),
    changed(CHANGES, "", WEEK),
    changed(CHANGES, "", MONTH),
    changed(CHANGES, "", HALF_A_YEAR),
    changed(CHANGES, "kind=price", TEN_MINUTES),
    changed(CHANGES, "kind=price", HOUR),
    changed(CHANGES, "kind=price", MONTH),
    changed(CHANGES, "kind=review", HOUR),
    changed(CHANGES, "kind=review", MONTH),
    changed(CHANGES, "status=active", HALF_AN_HOUR),
    changed(CHANGES, "status=active", HOUR),
    changed(CHANGES, "status=active", MONTH),
    changed(CHANGES, "missing_kind=supplier", HOUR),
    changed(CHANGES, "missing_kind=supplier", MONTH),
    changed(CHANGES, "kind=rare", HOUR),
    changed(CHANGES, "kind=supplier", HALF_AN_HOUR),
    asked(SHORT, "q=g"),
    asked(SHORT, "q=l"),
    asked(SHORT, "q=z"),
    asked(SHORT, "q=7"),
    asked(SHORT, "q=la"),
    asked(SHORT, "q=ga"),
    asked(SHORT, "q=m-"),
    asked(SHORT, "q=zz"),
    asked(SHORT, "q=ch&status=active"),
    changed(SHORT, "q=g", HOUR),
    changed(SHORT, "q=la", HOUR),
    changed(SHORT, "q=m-", MONTH),
    asked(SHORT, "q=ga&kind=price"),
];

const DAY: u64 = 86400;
/// What people look for in a shop: brands and products, several words, parts of SKUs, models, one letter.
const SOUGHT: &[&str] = &[
    "",
    "bosch",
    "makita",
    "gardena",
    "villeroy",
    "keuco",
    "blomus",
    "drill",
    "hammer drill",
    "bosch hammer drill",
    "hammer",
    "anthracite",
    "refurbished",
    "toaster",
    "kettle",
    "HAM-",
    "TOA-01",
    "0123456",
    "AB 123",
    "led bulb",
    "W%C3%BCrth",
    "mirror cabinet bl",
    "b",
];
const BESIDES: &[&str] = &["", "status=active", "kind=price", "missing_kind=image", "status=active&kind=supplier"];

/// Each search with each filter, at any time and changed since three.
pub(super) fn shop() -> Vec<ListFilter> {
    let mut filters = Vec::new();
    for (text, besides) in SOUGHT.iter().flat_map(|text| BESIDES.iter().map(move |besides| (text, besides))) {
        let search = if text.is_empty() { String::new() } else { format!("q={}", text.replace(' ', "+")) };
        let query =
            [search.as_str(), besides].into_iter().filter(|part| !part.is_empty()).collect::<Vec<_>>().join("&");
        for since in [None, Some(DAY), Some(MONTH), Some(HALF_A_YEAR)] {
            let class = match (text.is_empty(), since) {
                (true, None) => PLAIN,
                (false, None) => WORDS,
                (true, Some(_)) => CHANGES,
                (false, Some(_)) => BOTH,
            };
            filters.push(ListFilter { class, query: query.clone().into(), since: since.map(Since) });
        }
    }
    filters
}
