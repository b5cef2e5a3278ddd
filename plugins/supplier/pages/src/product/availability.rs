//! Availability by its short schema.org name, <https://schema.org/ItemAvailability>.

const NAMES: [&str; 12] = [
    "BackOrder",
    "Discontinued",
    "InStock",
    "InStoreOnly",
    "LimitedAvailability",
    "MadeToOrder",
    "OnlineOnly",
    "OutOfStock",
    "PreOrder",
    "PreSale",
    "Reserved",
    "SoldOut",
];

/// `https://schema.org/InStock`, `in stock` and `instock` are `InStock`; unknown words are `None`.
pub(super) fn normal(text: &str) -> Option<String> {
    let name = text.trim().trim_end_matches('/').rsplit(['/', '#', ':']).next().unwrap_or_default();
    let letters: String = name.chars().filter(|c| c.is_alphanumeric()).collect();
    let name = match letters.to_ascii_lowercase().as_str() {
        // How OpenGraph says it.
        "oos" => "OutOfStock",
        "availablefororder" => "BackOrder",
        "pending" => "PreOrder",
        known => NAMES.into_iter().find(|name| name.eq_ignore_ascii_case(known))?,
    };
    Some(name.to_owned())
}

#[cfg(test)]
mod tests {
    use super::normal;

    #[test]
    fn addresses_and_plain_words_are_one_name() {
        for text in [
            "https://schema.org/InStock",
            "http://schema.org/InStock",
            "InStock",
            "in stock",
            "in_stock",
            " http://schema.org/InStock/ ",
            "schema:InStock",
            "http://purl.org/goodrelations/v1#InStock",
        ] {
            assert_eq!(normal(text).as_deref(), Some("InStock"), "{text}");
        }
        assert_eq!(normal("oos").as_deref(), Some("OutOfStock"));
        assert_eq!(normal("call us"), None);
    }
}
