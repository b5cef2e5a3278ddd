//! Prices and availability: `Offer`, `AggregateOffer`, lists of both, and `priceSpecification`.

use super::Graph;
use crate::product::json::{Json, short_name};
use crate::product::{Facts, availability, price};

/// The first offer with a price counts; thousands of others add nothing.
const MAX_OFFERS: usize = 100;

type Price = (Option<String>, Option<String>);

pub(super) struct Offer<'a> {
    pub facts: Facts,
    pub node: &'a Json,
}

impl<'a> Graph<'a> {
    /// The offers below `json`, flattened: shops nest `offers` in an `AggregateOffer`.
    pub(super) fn offers(&self, json: &'a Json, steps: usize) -> Vec<Offer<'a>> {
        let mut found = Vec::new();
        self.collect_offers(json, None, steps, &mut found);
        found
    }

    fn collect_offers(&self, json: &'a Json, currency: Option<&String>, steps: usize, found: &mut Vec<Offer<'a>>) {
        for node in self.items(json.get("offers")) {
            if steps == 0 || found.len() == MAX_OFFERS {
                return;
            }
            let mut facts = self.offer(node, steps);
            // What all have in common stands on the offer around them.
            facts.currency = facts.currency.or(currency.cloned());
            let common = facts.currency.clone();
            found.push(Offer { facts, node });
            self.collect_offers(node, common.as_ref(), steps - 1, found);
        }
    }

    /// What stands on one offer.
    pub(super) fn offer(&self, offer: &'a Json, steps: usize) -> Facts {
        let (price, currency) = self.price(offer, steps);
        let availability = self.schema_name(offer.get("availability"));
        Facts {
            price,
            currency,
            availability: availability.and_then(|text| availability::normal(&text)),
            ..self.own_facts(offer)
        }
    }

    fn price(&self, offer: &'a Json, steps: usize) -> Price {
        let written = ["price", "lowPrice"].iter().find_map(|key| self.text(offer.get(key)));
        let currency = self
            .text(offer.get("priceCurrency"))
            .and_then(|text| price::currency(&text))
            .or_else(|| written.as_deref().and_then(price::currency));
        if let Some(price) = written.as_deref().and_then(price::decimal) {
            return (Some(price), currency);
        }
        match self.specified(offer, steps) {
            Some((price, own_currency)) => (price, own_currency.or(currency)),
            None => (None, currency),
        }
    }

    fn specified(&self, offer: &'a Json, steps: usize) -> Option<Price> {
        let specifications = self.items(offer.get("priceSpecification")).filter(|_| steps > 0);
        specifications
            .filter(|specification| self.is_for_everybody_now(specification))
            .map(|specification| self.price(specification, steps - 1))
            .find(|(price, _)| price.is_some())
    }

    /// Not the crossed-out price beside the one that counts, not the one of a kilogram, not that of a
    /// club.
    fn is_for_everybody_now(&self, specification: &'a Json) -> bool {
        const FORMER: [&str; 6] =
            ["ListPrice", "StrikethroughPrice", "SRP", "MSRP", "MinimumAdvertisedPrice", "RegularPrice"];
        let kind = self.schema_name(specification.get("priceType"));
        let is_former = kind.is_some_and(|kind| FORMER.contains(&short_name(&kind)));
        let is_given = |key| !specification.get(key).items().is_empty();
        !is_former && !is_given("referenceQuantity") && !is_given("validForMemberTier")
    }
}
